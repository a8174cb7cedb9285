// SPDX-License-Identifier: Apache-2.0

//go:build linux && amd64

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"purerdma/test/abi/source"
)

// A subject is one way to post and to poll.
type subject struct {
	name string
	env  []string
	args []string // arguments before the case, the batch and the rounds
	c    bool     // runs on the fake kernel in C
	// pollers is the number of threads of a program that polls receives.
	pollers int
	bin     string
	// The functions that post and poll, with the names in callgrind. post may differ by
	// the case.
	post map[string]string
	poll string
}

// same returns the post of a subject whose function does not depend on the case.
func same(f string) map[string]string { return map[string]string{"write": f, "inline": f} }

// The names of the rows that ratios uses.
const (
	rowC        = "C: ibv_post_send, ibv_poll_cq"
	rowC1       = "C, MLX5_SINGLE_THREADED=1"
	rowWR       = "C: ibv_wr_*"
	rowCgo      = "Go through cgo"
	rowPost     = "PostSend, Poll"
	rowUnlocked = "PostSend, Poll, Unlocked"
	rowBatch    = "BatchAdd, BatchPost"
	rowBuilder  = "BatchWrite, BatchSendInline"
	rowBuilder1 = "BatchWrite, BatchSendInline, Unlocked"
	rowVerbs    = "verbs.QP.PostSend, verbs.CQ.Poll"
	rowVerbs2   = "verbs.Batch"
)

var subjects = []subject{
	{name: rowC, c: true, bin: "bench", args: []string{"post"}, post: same("measure_post"), poll: "measure_poll"},
	{name: rowC1, c: true, bin: "bench", args: []string{"post"}, env: []string{"MLX5_SINGLE_THREADED=1"}, post: same("measure_post"), poll: "measure_poll"},
	{name: rowWR, c: true, bin: "bench", args: []string{"wr"}, post: map[string]string{"write": "measure_wr_write", "inline": "measure_wr_inline"}, poll: "measure_poll"},
	{name: rowCgo, c: true, bin: "cgo", post: same("main.measurePost"), poll: "main.measurePoll"},
	{name: rowPost, bin: "ours", args: []string{"post", "locked"}, post: same("main.measurePost"), poll: "main.measurePoll"},
	{name: rowUnlocked, bin: "ours", args: []string{"post", "unlocked"}, post: same("main.measurePost"), poll: "main.measurePoll"},
	{name: rowBatch, bin: "ours", args: []string{"batch", "locked"}, post: same("main.measureBatch"), poll: "main.measurePoll"},
	{name: rowBuilder, bin: "ours", args: []string{"builder", "locked"},
		post: map[string]string{"write": "main.measureBuilderWrite", "inline": "main.measureBuilderInline"}, poll: "main.measurePoll"},
	{name: rowBuilder1, bin: "ours", args: []string{"builder", "unlocked"},
		post: map[string]string{"write": "main.measureBuilderWrite", "inline": "main.measureBuilderInline"}, poll: "main.measurePoll"},
	{name: rowVerbs, bin: "ours", args: []string{"verbs", "locked"}, post: same("main.measureVerbs"), poll: "main.measureVerbsPoll"},
	{name: rowVerbs2, bin: "ours", args: []string{"verbsbatch", "locked"},
		post: map[string]string{"write": "main.measureVerbsBatchWrite", "inline": "main.measureVerbsBatchInline"}, poll: "main.measureVerbsPoll"},
}

// other is a driver other than mlx5. No builder of its library is measured.
type other struct {
	release string   // the release of Debian whose library is measured, unless the command line has one
	env     []string // of the library
}

// bookworm's libbnxt_re does not know requests of a variable size.
var others = map[string]other{
	"erdma":   {release: "bookworm"},
	"bnxt_re": {release: "sid", env: []string{"FAKEUV_CHIP=p7"}},
}

// subjects returns the subjects of a driver.
func (o *other) subjects(driver string) []subject {
	return []subject{
		{name: rowC, c: true, bin: "bench", args: []string{"post"}, env: o.env, post: same("measure_post"), poll: "measure_poll"},
		{name: rowPost, bin: "ours", args: []string{"-driver", driver, "post", "locked"}, post: same("main.measurePost"), poll: "main.measurePoll"},
		{name: rowBatch, bin: "ours", args: []string{"-driver", driver, "batch", "locked"}, post: same("main.measureBatch"), poll: "main.measurePoll"},
		{name: rowVerbs, bin: "ours", args: []string{"-driver", driver, "verbs", "locked"}, post: same("main.measureVerbs"), poll: "main.measureVerbsPoll"},
	}
}

var (
	cases   = []string{"inline", "write"}
	batches = []int{1, 16, 32}
)

// roundSize is the number of requests between two readings of the clock. C and cgo have an equal number.
const roundSize = 512

// programs has the paths of the built benchmarks.
type programs struct {
	dir string
	c   prepared
}

// prepared has test/oracle's parameters for compiling C programs for rdma-core, and for running them on the
// fake kernel.
type prepared struct {
	Version string   `json:"version"`
	CFlags  []string `json:"cflags"`
	Env     []string `json:"env"`
	Run     []string `json:"run"`
}

// prepare calls test/oracle to build the fake kernel.
func prepare(ctx context.Context, root, driver, release, dir string) (prepared, error) {
	cmd := exec.CommandContext(ctx, "go", "run", "./test/oracle", "-prepare", dir, "-driver", driver, "-release", release)
	cmd.Dir, cmd.Stderr = root, os.Stderr
	var p prepared
	out, err := cmd.Output()
	if err != nil {
		return p, fmt.Errorf("test/oracle -prepare: %w", err)
	}
	return p, json.Unmarshal(out, &p)
}

func build(ctx context.Context, o options, dir string) (*programs, error) {
	root, err := source.Root()
	if err != nil {
		return nil, err
	}
	sysfs := filepath.Join(dir, "sysfs")
	p := &programs{dir: dir}
	if p.c, err = prepare(ctx, root, o.driver, o.release, sysfs); err != nil {
		return nil, err
	}
	oracle, here := filepath.Join(root, "test/oracle/c"), filepath.Join(root, "test/bench/provider")
	// The provider registers itself when it is loaded. No symbol refers to it.
	programs := map[string][]string{"bench": {"bench.c", o.driver + ".c"}}
	link := []string{"-Wl,--no-as-needed", "-libverbs", "-ldl"}
	if o.driver == "mlx5" {
		programs["receive"] = []string{"receive.c"}
		link = []string{"-Wl,--no-as-needed", "-lmlx5", "-libverbs", "-ldl"}
	}
	for name, files := range programs {
		for i := range files {
			files[i] = filepath.Join(here, "c", files[i])
		}
		cmd := exec.CommandContext(ctx, "gcc", append(append(slices.Clone(p.c.CFlags), "-O2", "-g", "-std=gnu17", "-Wall", "-Wextra", "-Werror", "-pthread",
			"-I"+oracle, "-o", p.path(name)), slices.Concat(files, link)...)...)
		if text, err := cmd.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("gcc: %w\n%s", err, text)
		}
	}
	if o.driver != "mlx5" {
		return p, goBuild(ctx, filepath.Join(here, "ours"), p.path("ours"), "CGO_ENABLED=0")
	}
	cflags := strings.Join(p.c.CFlags, " ")
	if err := goBuild(ctx, filepath.Join(here, "cgo"), p.path("cgo"), "CGO_ENABLED=1", "CGO_CFLAGS=-O2 -g -I"+oracle+" "+cflags,
		"CGO_CFLAGS_ALLOW=-B.*", "CGO_LDFLAGS="+cflags, "CGO_LDFLAGS_ALLOW=(-B.*|-Wl,--no-as-needed)"); err != nil {
		return nil, err
	}
	return p, goBuild(ctx, filepath.Join(here, "ours"), p.path("ours"), "CGO_ENABLED=0")
}

func goBuild(ctx context.Context, dir, out string, env ...string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-o", out, ".")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build in %s: %w\n%s", dir, err, text)
	}
	return nil
}

func (p *programs) path(name string) string { return filepath.Join(p.dir, name) }

// run runs a subject with the command of another program in front, and returns the two printed medians.
func (p *programs) run(ctx context.Context, s *subject, kind string, batch, rounds int, behind ...string) (post, poll float64, err error) {
	args := append(slices.Clone(behind), p.path(s.bin))
	env := append([]string{"LC_ALL=C", "GODEBUG=asyncpreemptoff=1", "GOGC=off", "PATH=" + os.Getenv("PATH")}, s.env...)
	if s.c {
		args = append(append(slices.Clone(behind), p.c.Run...), p.path(s.bin))
		env = append(env, p.c.Env...)
	}
	args = append(append(args, s.args...), kind, strconv.Itoa(batch), strconv.Itoa(rounds))
	switch {
	case s.pollers > 0:
		args = append(args, strconv.Itoa(s.pollers))
	case !s.c:
		args = append(args, strconv.Itoa(roundSize))
	}
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Env = env
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return 0, 0, fmt.Errorf("%s: %w\n%s", strings.Join(args, " "), err, stderr.Bytes())
	}
	if _, err := fmt.Sscan(string(out), &post, &poll); err != nil {
		return 0, 0, fmt.Errorf("%s printed %q: %w", strings.Join(args, " "), out, err)
	}
	return post, poll, nil
}
