// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"purerdma/cmd/internal/hwcheck"
	"purerdma/cmd/internal/tool"
	"purerdma/internal/cmdtrace"
	"purerdma/internal/hwreport"
	"purerdma/internal/longtest"
	"purerdma/internal/vmtest"
	"purerdma/provider"
	"purerdma/provider/mlx5"
	"purerdma/test/connectx"
	"purerdma/test/connectx/inprocess"
	"purerdma/uverbs"
	"purerdma/verbs"
)

// child is the environment variable that makes the test binary a child of the program, with its kind.
const child = "RDMAHW_TEST_CHILD"

func TestMain(m *testing.M) {
	cmdtrace.Main()
	switch kind := os.Getenv(child); kind {
	case "":
		vmtest.Main(m)
	case "hang":
		time.Sleep(time.Hour)
	default:
		p := realProgram()
		if _, ok := defects[kind]; ok {
			p = onBroken(kind)
		} else if build, ok := kinds[kind]; ok {
			p = build()
		}
		tool.Main(p.run)
	}
}

// realProgram returns a program for the devices of this machine. It runs the project's programs next to RPING.
func realProgram() *program {
	p := testProgram("real")
	if rping := os.Getenv("RPING"); rping != "" {
		p.programs = filepath.Dir(rping)
	}
	return p
}

// kinds build the programs of children by their kinds.
var kinds = map[string]func() *program{
	"model":      onModel,
	"two":        func() *program { return onDevices("two", "mlx5_0", "mlx5_1") },
	"second":     func() *program { return onDevices("second", "mlx5_1") },
	"stray":      onStray,
	"stuck-open": func() *program { return onOpen(func() error { select {} }) },
}

// onModel returns a program whose host has a software ConnectX.
func onModel() *program { return onDevices("model", "mlx5_0") }

// onDevices returns a program whose host has software ConnectX devices. Its children are of a kind.
func onDevices(kind string, devices ...string) *program {
	p := testProgram(kind)
	p.host = &verbs.Host{Drivers: []provider.Driver{mlx5.Driver{}}, Kernel: inprocess.New(inprocess.Config{}, devices...)}
	return p
}

// onStray returns a program whose device completes a request of a destroyed QP.
func onStray() *program {
	p := testProgram("stray")
	k := inprocess.New(inprocess.Config{}, "mlx5_0")
	var once atomic.Bool
	k.Intercept = func(*uverbs.Request) error {
		if !once.Load() && k.Device("mlx5_0").StrayCompletion(false) {
			once.Store(true)
		}
		return nil
	}
	p.host = &verbs.Host{Drivers: []provider.Driver{mlx5.Driver{}}, Kernel: k, Log: faultLog()}
	return p
}

// openKernel is a kernel with another Open, which fails with the error of open.
type openKernel struct {
	uverbs.Kernel
	open func() error
}

func (k openKernel) Open(uverbs.DeviceInfo) (uverbs.Transport, error) { return nil, k.open() }

// onOpen returns a program whose devices fail to open with the error of open. The opens of its children do not return.
func onOpen(open func() error) *program {
	p := testProgram("stuck-open")
	p.host = &verbs.Host{Drivers: []provider.Driver{mlx5.Driver{}}, Kernel: openKernel{inprocess.New(inprocess.Config{}, "mlx5_0"), open}}
	return p
}

// defects are the defective devices by the kinds of children.
var defects = map[string]connectx.Defects{
	"broken":  {IgnoredFence: true},
	"stuck":   {LostDoorbells: 1},
	"swapped": {SwappedCounters: true},
}

// onBroken returns a program whose host has a defective software ConnectX.
func onBroken(kind string) *program {
	p := testProgram(kind)
	k := inprocess.New(inprocess.Config{}, "mlx5_0")
	k.Device("mlx5_0").SetDefects(defects[kind])
	p.host = &verbs.Host{Drivers: []provider.Driver{mlx5.Driver{}}, Kernel: k}
	return p
}

// testProgram returns a program whose children are processes of the test binary.
func testProgram(kind string) *program {
	p := newProgram()
	p.command = func(args ...string) *exec.Cmd {
		cmd := exec.Command(os.Args[0], args...)
		cmd.Env = append(os.Environ(), child+"="+kind)
		return cmd
	}
	return p
}

// archive returns the files of a report.
func archive(t *testing.T, file string) map[string]string {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatalf("os.Open: %v", err)
	}
	defer f.Close()
	zip, err := gzip.NewReader(f)
	if err != nil {
		t.Fatalf("gzip.NewReader: %v", err)
	}
	files := map[string]string{}
	for r := tar.NewReader(zip); ; {
		h, err := r.Next()
		if err == io.EOF {
			return files
		}
		if err != nil {
			t.Fatalf("Next: %v", err)
		}
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatalf("io.ReadAll: %v", err)
		}
		files[h.Name] = string(data)
	}
}

// runReport runs the program and returns its exit status, its report and the files of the report.
func runReport(t *testing.T, p *program, args ...string) (int, *hwreport.Report, map[string]string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "report.tar.gz")
	var out, errs bytes.Buffer
	status := p.run(t.Context(), append([]string{"run", "-o", file}, args...), &out, &errs)
	if status == statusUsage || status == statusNoReport {
		t.Fatalf("run(%q) = %d, stdout %s, stderr %s, want a report", args, status, out.String(), errs.String())
	}
	t.Log(out.String())
	r, files := readReport(t, file)
	return status, r, files
}

// readReport reads a report and returns it with its files.
func readReport(t *testing.T, file string) (*hwreport.Report, map[string]string) {
	t.Helper()
	files := archive(t, file)
	r, err := hwreport.Read(strings.NewReader(files[hwreport.JSONFile]))
	if err != nil {
		t.Fatalf("hwreport.Read: %v", err)
	}
	return r, files
}

// TestRun runs checks on the software ConnectX, in processes of their own.
func TestRun(t *testing.T) {
	status, r, files := runReport(t, onModel(), "-only", "send-sizes,atomics")
	if status != 0 || r.Count(hwreport.Pass) != 2 || len(r.Results) != 2 {
		t.Errorf("run() = %d with %+v, want 0 and 2 passed checks", status, r.Results)
	}
	m := r.Machine
	if m.Kind != hwreport.Model || m.Device != "mlx5_0" || m.Driver != "mlx5" || m.Facts["attr.MaxQP"] == "" || m.PageSize == 0 || m.Kernel == "" {
		t.Errorf("run() reports the machine %+v, want the model mlx5_0 with its attributes", m)
	}
	if text := files[hwreport.TextFile]; !strings.Contains(text, "2 passed, 0 failed, 0 skipped, 0 unknown (model)") || strings.Contains(text, "card") {
		t.Errorf("run() wrote the text %s, want a model", text)
	}
}

// TestExamine adds the findings of rdmadoctor to the report, without addresses.
func TestExamine(t *testing.T) {
	p := onModel()
	p.tool = func(name string) (*exec.Cmd, error) { return exec.Command("echo", name, "10.1.2.3"), nil }
	_, _, files := runReport(t, p, "-only", "fence", "-minutes", "0")
	if got, want := files["rdmadoctor.json"], "rdmadoctor <address> -json\n"; got != want {
		t.Errorf("run() wrote the findings %q, want %q", got, want)
	}
}

// TestRedactsResults checks that the results have no addresses, except with -names.
func TestRedactsResults(t *testing.T) {
	p := onModel()
	whole := p.command
	p.command = func(args ...string) *exec.Cmd {
		if args[0] == "machine" {
			return whole(args...)
		}
		return exec.Command("echo", `{"id": "fence", "status": "SKIP", "reason": "no route to 10.1.2.3", "evidence": ["GID fe80::1"]}`)
	}
	for _, names := range []bool{false, true} {
		_, _, files := runReport(t, p, "-only", "fence", fmt.Sprintf("-names=%v", names))
		for _, text := range []string{"10.1.2.3", "fe80::1"} {
			if got := strings.Contains(files[hwreport.JSONFile]+files[hwreport.TextFile], text); got != names {
				t.Errorf("run(-names=%v) wrote a report that has %s: %v, want %v", names, text, got, names)
			}
		}
	}
}

// TestWatchdog runs a child that hangs. The report has its stacks.
func TestWatchdog(t *testing.T) {
	p := onModel()
	whole := p.command
	p.command = func(args ...string) *exec.Cmd {
		cmd := whole(args...)
		if args[len(args)-1] == "atomics" {
			cmd.Env = append(cmd.Env, child+"=hang")
		}
		return cmd
	}
	p.limit = func(c *hwcheck.Check) time.Duration {
		if c.ID == "atomics" {
			return time.Second
		}
		return c.Limit
	}
	status, r, files := runReport(t, p, "-only", "atomics,send-sizes")
	if status != statusFailed || r.Results[0].Status != hwreport.Fail || r.Results[1].Status != hwreport.Pass {
		t.Errorf("run() = %d with %+v, want a failed and a passed check", status, r.Results)
	}
	if log := files["log/atomics.txt"]; !strings.Contains(log, "SIGQUIT") || !strings.Contains(log, "TestMain") {
		t.Errorf("run() wrote the log %q, want the stacks of the child", log)
	}
}

// TestWatchdogOfOpen checks that a run without a device on its command line ends if the open of a device does not return. The
// process of the watchdog opens no device.
func TestWatchdogOfOpen(t *testing.T) {
	p := onOpen(func() error {
		t.Error("Open in the process of the watchdog, want it in a child")
		return syscall.EIO
	})
	p.machineLimit = time.Second
	var out, errs bytes.Buffer
	file := filepath.Join(t.TempDir(), "report.tar.gz")
	status := p.run(t.Context(), []string{"run", "-o", file, "-only", "fence"}, &out, &errs)
	if text := errs.String(); status != statusNoReport || !strings.Contains(text, errTimeout.Error()) || !strings.Contains(text, "hwcheck.(*Target).active") {
		t.Errorf("run() = %d, stderr %s, want %d, %q and the stacks of the child", status, text, statusNoReport, errTimeout)
	}
}

// TestSameDevice checks that all checks use the device that was chosen at the beginning, although another device would be chosen
// later.
func TestSameDevice(t *testing.T) {
	p := kinds["two"]()
	whole := p.command
	p.command = func(args ...string) *exec.Cmd {
		cmd := whole(args...)
		if args[0] == "machine" {
			cmd.Env = append(cmd.Env, child+"=second")
		}
		return cmd
	}
	_, r, files := runReport(t, p, "-only", "vectors")
	if r.Machine.Device != "mlx5_1" || r.Count(hwreport.Pass) != 1 {
		t.Errorf("run() reports %s and %+v, want mlx5_1 and a passed check", r.Machine.Device, r.Results)
	}
	if head, _, _ := strings.Cut(files["vectors/recording.jsonl"], "\n"); !strings.Contains(head, `"mlx5_1"`) {
		t.Errorf("run() wrote a recording of the device %s, want mlx5_1", head)
	}
}

// TestRecordsFailure runs a check that fails. The report has a recording of its second run.
func TestRecordsFailure(t *testing.T) {
	status, r, files := runReport(t, onBroken("broken"), "-only", "fence")
	if status != statusFailed || len(r.Results) != 1 || r.Results[0].Status != hwreport.Fail {
		t.Fatalf("run() = %d with %+v, want a failed check", status, r.Results)
	}
	if e := strings.Join(r.Results[0].Evidence, "\n"); !strings.Contains(e, "once more, with a recorder: FAIL") {
		t.Errorf("run() reports the evidence %q, want a second failure", e)
	}
	if rec := files["fence/recording.jsonl"]; !strings.Contains(rec, `"t":"poll"`) {
		t.Errorf("run() wrote a recording of %d bytes, want one with completions", len(rec))
	}
}

// TestRecordsUnexplained runs a check whose device writes a completion that no request explains. The report has its bytes and a
// recording of the second run.
func TestRecordsUnexplained(t *testing.T) {
	status, r, files := runReport(t, onStray(), "-only", "destroy")
	if status != 0 || len(r.Results) != 1 || !r.Results[0].Unexplained() {
		t.Fatalf("run() = %d with %+v, want 0 and an unexplained completion", status, r.Results)
	}
	if log := files["log/destroy.txt"]; !strings.Contains(log, "completion not understood") || !strings.Contains(log, "cqe=") {
		t.Errorf("run() wrote the log %q, want the bytes of the completion", log)
	}
	if rec := files["destroy/recording.jsonl"]; !strings.Contains(rec, `"t":"poll"`) {
		t.Errorf("run() wrote a recording of %d bytes, want one with completions", len(rec))
	}
}

// TestRecordsHang runs a check that hangs. The watchdog ends it, and the report has its stacks and a recording.
func TestRecordsHang(t *testing.T) {
	longtest.Need(t)
	p := testProgram("stuck")
	p.host = onModel().host
	p.limit = func(*hwcheck.Check) time.Duration { return 5 * time.Second } // less than a check waits for a completion
	status, r, files := runReport(t, p, "-only", "doorbells")
	if status != statusFailed || !strings.Contains(r.Results[0].Reason, errTimeout.Error()) {
		t.Errorf("run() = %d with %+v, want a check that the watchdog has ended", status, r.Results)
	}
	if rec := files["doorbells/recording.jsonl"]; !strings.Contains(rec, `"t":"send"`) {
		t.Errorf("run() wrote a recording of %d bytes, want one with a request", len(rec))
	}
	if log := files["log/doorbells.txt"]; !strings.Contains(log, "SIGQUIT") || !strings.Contains(log, "hwcheck") {
		t.Errorf("run() wrote the log %q, want the stacks of the child", log)
	}
}

// TestVectors checks that a report always has the recorded scenario, and without -names no datagrams.
func TestVectors(t *testing.T) {
	for _, names := range []bool{false, true} {
		_, r, files := runReport(t, onModel(), "-only", "vectors", fmt.Sprintf("-names=%v", names))
		if r.Count(hwreport.Pass) != 1 || !strings.Contains(files["vectors/recording.jsonl"], `"t":"poll"`) {
			t.Errorf("run(-names=%v) = %+v with files of %d bytes, want a recording", names, r.Results, len(files["vectors/recording.jsonl"]))
		}
	}
}

// TestTimeIsOver checks that a run without time skips its checks.
func TestTimeIsOver(t *testing.T) {
	status, r, _ := runReport(t, onModel(), "-minutes", "0")
	n := 0
	for _, c := range hwcheck.All() {
		if !c.Destructive {
			n++
		}
	}
	if status != 0 || r.Count(hwreport.Skip) != n {
		t.Errorf("run(-minutes 0) = %d with %s, want %d skipped", status, r.Summary(), n)
	}
}

// TestEffort checks the effort of checks, by default and by the flag.
func TestEffort(t *testing.T) {
	for kind, want := range map[hwreport.Kind]time.Duration{hwreport.Card: time.Minute, hwreport.Model: 0, hwreport.Software: 0} {
		if got := defaultEffort(kind); got != want {
			t.Errorf("defaultEffort(%s) = %v, want %v", kind, got, want)
		}
	}
	for flags, want := range map[string]string{"-only fence": " -effort 0s ", "-only fence -effort 3s": " -effort 3s "} {
		p := onModel()
		var children []string
		start := p.command
		p.command = func(args ...string) *exec.Cmd {
			children = append(children, strings.Join(args, " "))
			return start(args...)
		}
		runReport(t, p, strings.Fields(flags)...)
		if last := children[len(children)-1]; !strings.HasPrefix(last, "check ") || !strings.Contains(last, want) {
			t.Errorf("run(%s) runs %q, want a check with%s", flags, last, want)
		}
	}
	o := &options{port: 1}
	if err := o.setEffort("3s"); err != nil {
		t.Fatalf("setEffort(3s): %v", err)
	}
	if target, err := onModel().target(o); err != nil || target.Effort != 3*time.Second {
		t.Errorf("target with an effort of 3s = %+v, %v, want that effort", target, err)
	}
}

// TestUsage checks the errors of wrong command lines.
func TestUsage(t *testing.T) {
	for args, want := range map[string]string{
		"":                   "usage",
		"walk":               "unknown command",
		"run extra":          "unexpected arguments",
		"run -only nothing":  "no check",
		"run -i 0":           "want 1 to 255",
		"run -effort -1s":    "want at least 0",
		"run -effort soon":   "invalid duration",
		"run -only unbind":   "needs -destructive",
		"run -a nowhere":     "-a",
		"run -d mlx5_7":      "no RDMA device mlx5_7",
		"check":              "unexpected arguments",
		"check nothing":      "no check",
		"judge":              "unexpected arguments",
		"run -nothing":       "flag provided but not defined",
		"machine -d mlx5_7 ": "no RDMA device mlx5_7",
	} {
		var out, errs bytes.Buffer
		if status := onModel().run(t.Context(), strings.Fields(args), &out, &errs); status != statusUsage || !strings.Contains(errs.String(), want) {
			t.Errorf("run(%s) = %d, stderr %s, want %d and %q", args, status, errs.String(), statusUsage, want)
		}
	}
}

// TestHelp checks that requests for help succeed and print the usage.
func TestHelp(t *testing.T) {
	for args, want := range map[string]string{
		"help": "usage: rdmahw run", "-h": "usage: rdmahw run", "-help": "usage: rdmahw run", "--help": "usage: rdmahw run",
		"run -h": "-minutes", "serve -h": "-p string",
	} {
		var out, errs bytes.Buffer
		if status := onModel().run(t.Context(), strings.Fields(args), &out, &errs); status != 0 || !strings.Contains(out.String()+errs.String(), want) {
			t.Errorf("run(%s) = %d, stdout %s, stderr %s, want 0 and %q", args, status, out.String(), errs.String(), want)
		}
	}
}

// TestList checks that the list has each check, and that IDs are unique.
func TestList(t *testing.T) {
	var out, errs bytes.Buffer
	if status := onModel().run(t.Context(), []string{"list"}, &out, &errs); status != 0 {
		t.Fatalf("run(list) = %d, stderr %s, want 0", status, errs.String())
	}
	seen := map[string]bool{}
	for _, c := range hwcheck.All() {
		if !strings.Contains(out.String(), c.ID+" ") || seen[c.ID] {
			t.Errorf("run(list) = %s, want %s once", out.String(), c.ID)
		}
		seen[c.ID] = true
	}
}

// TestWatchCancelled checks that the end of the context ends a child.
func TestWatchCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	if _, _, err := watch(ctx, testProgram("hang").command(), time.Hour); !errors.Is(err, context.Canceled) {
		t.Errorf("watch = %v, want %v", err, context.Canceled)
	}
}
