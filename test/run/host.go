// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
)

// event is an event of test2json.
type event struct {
	Action      string
	Package     string
	ImportPath  string // set for the output of a build
	FailedBuild string // ImportPath of the failed build of a failed package
	Test        string
	Elapsed     float64 // seconds
	Output      string
}

// decode passes the events in r to pass. It copies other text, such as messages of the go
// command, to other.
func decode(r io.Reader, pass func(event), other io.Writer) error {
	d := json.NewDecoder(r)
	for {
		var e event
		if err := d.Decode(&e); err == io.EOF {
			return nil
		} else if err != nil {
			io.Copy(other, io.MultiReader(d.Buffered(), r))
			return fmt.Errorf("read test events: %w", err)
		}
		pass(e)
	}
}

// runHost runs the tests of the row's packages on this machine.
func (r *row) runHost(ctx context.Context, rep *report) error {
	modules := modulesOf(r.patterns)
	tested := 0
	for _, m := range modules {
		pkgs, err := m.list(ctx, r.environ())
		if err != nil {
			return err
		}
		for _, p := range pkgs {
			if len(p.TestGoFiles)+len(p.XTestGoFiles) > 0 {
				tested++
			}
		}
	}
	rep.beginRow(tested, 0)
	defer rep.endRow("")
	for _, m := range modules {
		if err := r.goTest(ctx, rep, m); err != nil {
			return err
		}
	}
	return nil
}

// goTest runs the tests of the packages of a module.
func (r *row) goTest(ctx context.Context, rep *report, m module) error {
	args := []string{"test", "-json", "-timeout=" + r.timeout}
	for _, f := range []struct{ name, value string }{{"run", r.run}, {"skip", r.skip}, {"exec", r.exec}} {
		if f.value != "" {
			args = append(args, "-"+f.name+"="+f.value)
		}
	}
	if r.race {
		args = append(args, "-race")
	}
	args = append(append(args, strings.Fields(r.args)...), m.patterns...)
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.Dir, cmd.Env = m.dir, r.environ()
	var stderr strings.Builder
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	failed := rep.cur.failed
	if err := cmd.Start(); err != nil {
		return err
	}
	derr := decode(stdout, rep.event, &stderr)
	err = cmd.Wait()
	if err == nil {
		err = derr
	}
	if err != nil && (derr != nil || rep.cur.failed == failed) {
		rep.fail(r.name, fmt.Sprintf("%sgo %s: %v\n", &stderr, strings.Join(args, " "), err))
	}
	return nil
}

// environ returns the environment of the go command, or of a program in the virtual machine.
func (r *row) environ() []string {
	env := append(os.Environ(), strings.Fields(r.env)...)
	if r.long {
		env = append(env, longVariable)
	}
	return env
}

// longVariable enables the long tests, see package longtest.
const longVariable = "RDMA_LONG_TESTS=1"
