// SPDX-License-Identifier: Apache-2.0

package hwcheck

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// healthChecks use the health reporters of the driver (devlink-health(8)).
var healthChecks = []Check{
	{ID: "health", Local: true, Title: "health reporters of the driver", needs: needsReporters, do: checkHealth},
	{ID: "health-recover", Local: true, Destructive: true, Limit: 5 * time.Minute, Title: "health reporters tested and recovered under load", needs: needsRecovery, do: checkRecovery},
}

// devlinkTime bounds a run of devlink.
const devlinkTime = 30 * time.Second

// reporter is a health reporter.
type reporter struct {
	Device   string `json:"-"` // such as pci/0000:3b:00.0, with the number of a port
	Reporter string
	State    string
	Error    int // errors
	Recover  int // recoveries
}

// healthy is the state of a reporter without an error.
const healthy = "healthy"

// parseReporters parses the output of devlink -j health show for a PCI device.
func parseReporters(text []byte, device string) ([]reporter, error) {
	var out struct {
		Health map[string][]reporter
	}
	if err := json.Unmarshal(text, &out); err != nil {
		return nil, fmt.Errorf("output of devlink: %w", err)
	}
	var list []reporter
	for name, reporters := range out.Health {
		if name != "pci/"+device && !strings.HasPrefix(name, "pci/"+device+"/") {
			continue
		}
		for _, r := range reporters {
			r.Device = name
			list = append(list, r)
		}
	}
	slices.SortFunc(list, func(a, b reporter) int { return strings.Compare(a.String(), b.String()) })
	return list, nil
}

// String returns a text such as "fw_fatal of port 65535".
func (r reporter) String() string {
	if _, port, ok := strings.Cut(strings.TrimPrefix(r.Device, "pci/"), "/"); ok {
		return r.Reporter + " of port " + port
	}
	return r.Reporter
}

// target returns the arguments that name the reporter.
func (r reporter) target() []string { return []string{r.Device, "reporter", r.Reporter} }

// devlink runs devlink, and returns its output.
func (t *trial) devlink(args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(t.ctx, devlinkTime)
	defer cancel()
	out, err := exec.CommandContext(ctx, "devlink", args...).CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("devlink %s: %w: %s", args[0], err, last(out))
	}
	return out, nil
}

// reporters returns the health reporters of the device.
func (t *trial) reporters() ([]reporter, error) {
	_, name, err := t.driverFiles()
	if err != nil {
		return nil, err
	}
	out, err := t.devlink("-j", "health", "show")
	if err != nil {
		return nil, err
	}
	return parseReporters(out, name)
}

func needsReporters(t *trial) string {
	if reason := needsKernel(t); reason != "" {
		return reason
	}
	if _, err := exec.LookPath("devlink"); err != nil {
		return "devlink is not installed"
	}
	list, err := t.reporters()
	switch {
	case err != nil:
		return err.Error()
	case len(list) == 0:
		return "the driver has no health reporters"
	}
	return ""
}

func needsRecovery(t *trial) string {
	if reason := needsPCI(t); reason != "" {
		return reason
	}
	return needsReporters(t)
}

func checkHealth(t *trial) {
	list, err := t.reporters()
	t.must("list the reporters", err)
	t.noteHealth("now", list)
	l := t.link(Config{})
	sendOne(l, 1, 4096)
	after, err := t.reporters()
	t.must("list the reporters", err)
	if err := unhealthy(list, after); err != nil {
		t.fail("%v", err)
	}
}

func (t *trial) noteHealth(when string, list []reporter) {
	for _, r := range list {
		t.note("%s: reporter %s is %s, %d errors, %d recoveries", when, r, r.State, r.Error, r.Recover)
	}
}

// unhealthy returns an error if a reporter is not healthy, is missing afterwards, or has counted another error.
func unhealthy(before, after []reporter) error {
	var errs []error
	for _, b := range before {
		i := slices.IndexFunc(after, func(a reporter) bool { return a.Device == b.Device && a.Reporter == b.Reporter })
		if i < 0 {
			errs = append(errs, fmt.Errorf("reporter %s has disappeared", b))
			continue
		}
		if a := after[i]; a.State != healthy {
			errs = append(errs, fmt.Errorf("reporter %s is in state %s", a, a.State))
		} else if a.Error > b.Error {
			errs = append(errs, fmt.Errorf("reporter %s has counted %d errors during the check", a, a.Error-b.Error))
		}
	}
	return errors.Join(errs...)
}

// checkRecovery reports an error by the reporters that can be tested, and has each reporter recover. A driver resets the device
// when its fatal reporter recovers from an error.
func checkRecovery(t *trial) {
	list, err := t.reporters()
	t.must("list the reporters", err)
	t.noteHealth("before", list)
	tested := 0
	t.disturb("recovery", func() error {
		for _, r := range list {
			for _, command := range []string{"test", "recover"} {
				if _, err := t.devlink(append([]string{"health", command}, r.target()...)...); err != nil {
					if !notSupported(err) {
						return err
					}
					t.note("%s of reporter %s: not supported", command, r)
					continue
				}
				if command == "test" {
					tested++
				}
				t.note("%s of reporter %s: done", command, r)
			}
		}
		return nil
	}, t.interfaceUp)
	after, err := t.reporters()
	t.must("list the reporters", err)
	t.noteHealth("after", after)
	for i := range list { // a test counts an error
		list[i].Error = 1 << 30
	}
	if err := unhealthy(list, after); err != nil {
		t.fail("%v", err)
	}
	t.needsOne(tested, "reporter that can be tested, and healthy ones do nothing when they recover")
}

// notSupported reports whether devlink has failed because the reporter lacks the operation.
func notSupported(err error) bool {
	return bytes.Contains(bytes.ToLower([]byte(err.Error())), []byte("not supported"))
}
