// SPDX-License-Identifier: Apache-2.0

// Run runs every test that needs RDMA in one virtual machine:
//
//	run -rdmavm bin/rdmavm -rping bin/rping [-race] [-run regexp] [packages]
//
// These are the tests of the packages that import internal/vmtest. They are
// built here and run there, one after the other. A test that skips itself fails
// the run: the machine has whatever a test may need.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"purerdma/internal/longtest"
)

// helper is what the tests that need RDMA import.
const helper = "purerdma/internal/vmtest"

// parallel is how many of the tests that say so (t.Parallel) may overlap: they wait
// more than they compute, so that they are more than the machine has processors.
const parallel = "4"

// modules are what tests make the network fail with.
const modules = "bonding,sch_netem"

type config struct {
	rdmavm, rping  string
	packages, bins string
	race           bool
	run, skip      string
	timeout        string
	vmFlags        string
	args           string
	rounds         int
}

func main() {
	var c config
	flag.StringVar(&c.rdmavm, "rdmavm", "bin/rdmavm", "the `program` that runs the machine")
	flag.StringVar(&c.rping, "rping", "bin/rping", "the rping to test, for tests in RPING; our other programs lie beside it")
	flag.StringVar(&c.packages, "packages", "", "Debian `packages` for the machine")
	flag.StringVar(&c.bins, "bin", "bin/test", "`directory` for the test programs")
	flag.BoolVar(&c.race, "race", false, "build with the race detector")
	flag.StringVar(&c.run, "run", "", "run only the tests that match `regexp`")
	flag.StringVar(&c.skip, "skip", "", "do not run the tests that match `regexp`")
	flag.StringVar(&c.timeout, "timeout", "5m", "`limit` for the tests of one package")
	flag.StringVar(&c.args, "args", "", "more `flags` for the tests, separated by spaces")
	flag.IntVar(&c.rounds, "rounds", 1, "how `often` a test may run until it passes, if few fail")
	flag.StringVar(&c.vmFlags, "vm", "", "more `flags` for rdmavm, separated by spaces")
	flag.Parse()
	patterns := flag.Args()
	if len(patterns) == 0 {
		patterns = []string{"./..."}
	}
	// A signal ends rdmavm, too, which tidies up.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := c.runAll(ctx, patterns); err != nil {
		fmt.Fprintln(os.Stderr, "run:", err)
		os.Exit(1)
	}
}

// pkg is what go list says about a package.
type pkg struct {
	ImportPath, Dir            string
	TestImports, XTestImports  []string
	TestGoFiles, XTestGoFiles  []string
	Module                     *struct{ Dir string }
	DepsErrors, InvalidGoFiles []any
}

// command is one entry of rdmavm's list.
type command struct {
	Dir  string   `json:"dir"`
	Args []string `json:"args"`
	Env  []string `json:"env,omitempty"`
}

func (c *config) runAll(ctx context.Context, patterns []string) error {
	pkgs, err := find(ctx, patterns)
	if err != nil {
		return err
	}
	rping, err := filepath.Abs(c.rping)
	if err != nil {
		return err
	}
	flags := strings.Fields(c.vmFlags)
	driver, kernel := flagValue(flags, "driver", "rxe"), flagValue(flags, "kernel", "6.1")
	bins, err := c.build(ctx, pkgs)
	if err != nil {
		return err
	}
	var list []command
	for i, p := range pkgs {
		bin := bins[i]
		dir := strings.TrimPrefix(p.ImportPath, "purerdma/")
		if err := checkLacks(ctx, bin, dir); err != nil {
			return err
		}
		args := []string{bin, "-test.v", "-test.count=1", "-test.timeout=" + c.timeout, "-test.parallel=" + parallel}
		args = append(args, strings.Fields(c.args)...)
		if c.run != "" {
			args = append(args, "-test.run="+c.run)
		}
		skip := skipped(driver, kernel, dir)
		if skip != "" {
			fmt.Fprintf(os.Stderr, "run: left out of %s on %s: %s\n", dir, driver, strings.NewReplacer("^", "", "$", "", "|", " ").Replace(skip))
		}
		if c.skip != "" {
			skip = strings.TrimPrefix(skip+"|"+c.skip, "|")
		}
		if skip != "" {
			args = append(args, "-test.skip="+skip)
		}
		list = append(list, command{Dir: p.Dir, Args: args, Env: []string{"RPING=" + rping}})
	}
	return c.bootUntilPassed(ctx, driver, list)
}

// bootUntilPassed runs the list, and what fails of it again as often as that is
// allowed.
func (c *config) bootUntilPassed(ctx context.Context, driver string, list []command) error {
	rounds, why := c.rounds, "a test on an emulated processor may miss its moment"
	if flaky[driver] != "" {
		rounds, why = max(rounds, flakyRounds), flaky[driver]
	}
	var repeated []string
	res, err := c.boot(ctx, list)
	for round := 2; err != nil && round <= rounds; round++ {
		again := res.again(len(list))
		if again == "" || round > c.rounds && slices.Contains(res.failed, soak) {
			break
		}
		fmt.Printf("run: round %d, because %s: %s\n", round, why, strings.Join(res.leaves, " "))
		repeated = append(repeated, res.leaves...)
		for i := range list {
			list[i].Args = append(list[i].Args, "-test.run="+again) // the last one counts
		}
		res, err = c.boot(ctx, list)
	}
	if err == nil && len(repeated) > 0 {
		slices.Sort(repeated)
		fmt.Printf("run: passed, but not at once: %s\n", strings.Join(slices.Compact(repeated), " "))
	}
	return err
}

// flakyRounds is how often a test may fail for the fault of a flaky driver before
// that counts.
const flakyRounds = 3

// find returns the packages whose tests need RDMA.
func find(ctx context.Context, patterns []string) ([]pkg, error) {
	cmd := exec.CommandContext(ctx, "go", append([]string{"list", "-json"}, patterns...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	var pkgs []pkg
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p pkg
		if err := d.Decode(&p); err == io.EOF {
			break
		} else if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		if slices.Contains(p.TestImports, helper) || slices.Contains(p.XTestImports, helper) {
			pkgs = append(pkgs, p)
		}
	}
	if len(pkgs) == 0 {
		return nil, fmt.Errorf("no package of %s has tests that import %s", strings.Join(patterns, " "), helper)
	}
	return pkgs, nil
}

// build compiles the tests of packages, which differ in the last element of their
// paths, and returns the programs.
func (c *config) build(ctx context.Context, pkgs []pkg) ([]string, error) {
	dir, err := filepath.Abs(c.bins)
	if err != nil {
		return nil, err
	}
	args := []string{"test", "-c", "-o", dir + "/"}
	if c.race {
		args = append(args, "-race")
	}
	var bins []string
	for _, p := range pkgs {
		args = append(args, p.ImportPath)
		bins = append(bins, filepath.Join(dir, path.Base(p.ImportPath)+".test"))
	}
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("building the tests: %w", err)
	}
	return bins, nil
}

// boot runs the list in the virtual machine.
func (c *config) boot(ctx context.Context, list []command) (res results, err error) {
	var b strings.Builder
	e := json.NewEncoder(&b)
	for _, cmd := range list {
		if err := e.Encode(cmd); err != nil {
			return res, err
		}
	}
	file := filepath.Join(c.bins, "list")
	if err := os.WriteFile(file, []byte(b.String()), 0o666); err != nil {
		return res, err
	}
	args := append([]string{"-hosts", "2", "-modules", modules}, strings.Fields(c.vmFlags)...)
	if c.packages != "" {
		args = append(args, "-packages", c.packages)
	}
	cmd := exec.CommandContext(ctx, c.rdmavm, append(args, "-list", file)...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return res, err
	}
	if err := cmd.Start(); err != nil {
		return res, err
	}
	res, rerr := watch(stdout, os.Stdout)
	err = cmd.Wait()
	fmt.Printf("in the virtual machine: %d passed, %d failed, %d skipped, in %d packages\n",
		res.passed, len(res.failed), len(res.skipped), len(list))
	switch {
	case err != nil:
		return res, fmt.Errorf("%s: %w", c.rdmavm, err)
	case rerr != nil:
		return res, rerr
	case len(res.failed) > 0:
		return res, fmt.Errorf("%d tests failed", len(res.failed))
	case len(res.skipped) > 0:
		return res, fmt.Errorf("tests skipped themselves where nothing is missing: %s", strings.Join(res.skipped, ", "))
	case res.passed == 0:
		return res, fmt.Errorf("no test ran")
	}
	return res, nil
}

// results are what the output of tests says.
type results struct {
	passed  int
	failed  []string // at the top level
	leaves  []string // of what failed: subtests in the place of their parents
	skipped []string
	ended   int // test programs that came to their end
}

// fewFailures is how many tests may fail by chance: more have another cause.
const fewFailures = 5

// soak knows the drivers' faults itself, and is to show those that come seldom: no
// fault of a flaky driver excuses it.
const soak = "TestSoak"

// again returns the pattern of the tests that failed, if all of the programs came
// to their end, few tests failed, and chance may be why; else "".
func (r *results) again(programs int) string {
	if n := len(r.failed); n == 0 || n > fewFailures || len(r.skipped) > 0 || r.ended != programs {
		return ""
	}
	var pattern []string
	for _, name := range r.leaves {
		var levels []string
		for level := range strings.SplitSeq(name, "/") {
			levels = append(levels, "^"+regexp.QuoteMeta(level)+"$")
		}
		pattern = append(pattern, strings.Join(levels, "/"))
	}
	return strings.Join(pattern, "|")
}

// fail notes that a test failed. Its subtests come after it.
func (r *results) fail(name string, top bool) {
	if top {
		r.failed = append(r.failed, name)
	}
	if n := len(r.leaves); n > 0 && strings.HasPrefix(name, r.leaves[n-1]+"/") {
		r.leaves = r.leaves[:n-1]
	}
	r.leaves = append(r.leaves, name)
}

var verdict = regexp.MustCompile(`^--- (PASS|FAIL|SKIP): (\S+)`)

// watch copies the output of tests and counts verdicts, those of subtests only
// where they are not in their parent's.
func watch(r io.Reader, w io.Writer) (results, error) {
	var res results
	in := bufio.NewReader(r)
	long := false // the line before is the message of a long test that does not run
	for {
		line, err := in.ReadString('\n')
		if _, werr := io.WriteString(w, line); werr != nil {
			return res, werr
		}
		if last := strings.TrimSuffix(line, "\n"); last == "PASS" || last == "FAIL" {
			res.ended++
		}
		trimmed := strings.TrimLeft(line, " ")
		if m := verdict.FindStringSubmatch(trimmed); m != nil {
			switch top := trimmed == line; {
			case m[1] == "SKIP" && long:
			case m[1] == "SKIP":
				res.skipped = append(res.skipped, m[2])
			case top && m[1] == "PASS":
				res.passed++
			case m[1] == "FAIL":
				res.fail(m[2], top)
			}
		}
		long = strings.Contains(line, longtest.Notice)
		if err == io.EOF {
			return res, nil
		}
		if err != nil {
			return res, err
		}
	}
}
