// SPDX-License-Identifier: Apache-2.0

package documents

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	workflowJob = regexp.MustCompile(`(?m)^  [a-z]+:$`)
	makeCommand = regexp.MustCompile(`(?m)\brun: make (\S+)$`)
	makeTarget  = regexp.MustCompile(`(?m)^([a-z-]+):`)
)

// TestWorkflow checks that the jobs of the workflow run targets that exist. The job that starts virtual machines
// must pass KVM to its container. Otherwise it takes many times as long.
func TestWorkflow(t *testing.T) {
	var targets []string
	for _, m := range makeTarget.FindAllStringSubmatch(read(t, "../../Makefile"), -1) {
		targets = append(targets, m[1])
	}
	_, jobs, found := strings.Cut(read(t, "../../.github/workflows/ci.yml"), "\njobs:\n")
	if !found {
		t.Fatal("strings.Cut(ci.yml, jobs) = false, want true")
	}
	var run []string
	for _, job := range workflowJob.Split(jobs, -1)[1:] {
		for _, m := range makeCommand.FindAllStringSubmatch(job, -1) {
			run = append(run, m[1])
			if !slices.Contains(targets, m[1]) {
				t.Errorf("ci.yml runs make %s, want a target of the Makefile", m[1])
			}
			if m[1] == "test-ci" && !strings.Contains(job, "--device /dev/kvm") {
				t.Errorf("ci.yml runs make test-ci in a job without --device /dev/kvm")
			}
		}
	}
	for _, want := range []string{"lint", "vulncheck", "test-ci"} { // of .ci/run
		if !slices.Contains(run, want) {
			t.Errorf("ci.yml runs make %q, want also %s", run, want)
		}
	}
}
