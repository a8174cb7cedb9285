// SPDX-License-Identifier: Apache-2.0

package arch

import (
	"regexp"
	"testing"
)

// inlined lists the functions that the compiler must inline into their callers. A call costs more
// than the work of these functions, which bench-mlx5 measures.
var inlined = []string{
	"(*Batch).Send",
	"(*Batch).SendInline",
	"(*Batch).Write",
	"(*Batch).WriteInline",
	"(*Batch).Discard",
	"(*RecvBatch).Add",
	"(*RecvBatch).WRs",
	"(*RecvBatch).Reset",
}

// TestInlined checks that the compiler can inline the methods of Batch that only call the provider.
// Some of them use all of the compiler's budget.
func TestInlined(t *testing.T) {
	_, out := goOutput(t, moduleRoot(t), []string{"CGO_ENABLED=0", "GOFLAGS="}, "build", "-gcflags=-m=2", "./verbs")
	cost, refusal := map[string]string{}, map[string]string{}
	for _, m := range canInline.FindAllStringSubmatch(out, -1) {
		cost[m[1]] = m[2]
	}
	for _, m := range cannotInline.FindAllStringSubmatch(out, -1) {
		refusal[m[1]] = m[2]
	}
	for _, f := range inlined {
		if cost[f] == "" {
			t.Errorf("verbs.%s is not inlined: %q", f, refusal[f])
			continue
		}
		t.Logf("verbs.%s: cost %s of 80", f, cost[f])
	}
}

// canInline and cannotInline match the decisions in the output of the compiler's -m=2.
var (
	canInline    = regexp.MustCompile(`(?m)^[^ \n]+: can inline (\S+) with cost (\d+) as: `)
	cannotInline = regexp.MustCompile(`(?m)^[^ \n]+: cannot inline (\S+): (.*)`)
)
