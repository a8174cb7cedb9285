// SPDX-License-Identifier: Apache-2.0

package hwjudge

import (
	"fmt"
	"io"

	"purerdma/internal/hwreport"
)

// outcome is the answer of a report to a belief.
type outcome string

const (
	confirmed    outcome = "confirmed"
	contradicted outcome = "contradicted"
	undecided    outcome = "undecided"
)

// belief is a statement about a ConnectX that the driver and the model share, so that only a card can decide it.
type belief struct {
	id, text string
	where    string // the files that rely on it
	checks   []string
	find     func(*recording) findings // nil if recordings do not show it
}

func receiveCounters(r *recording) findings  { return r.counters().recvs }
func requestCounters(r *recording) findings  { return r.counters().sends }
func failureCounters(r *recording) findings  { return r.counters().failures }
func resetCounters(r *recording) findings    { return r.counters().resets }
func scatteredData(r *recording) findings    { return r.scattered() }
func explainedEntries(r *recording) findings { return r.explained() }

var beliefs = []belief{
	{
		"receive-counters", "the counter in the completion of a receive runs on past the size of the queue, up to 2^16",
		"provider/mlx5/recvqueue.go, test/connectx/receive.go", []string{"wrap", "wrap-recorded"}, receiveCounters,
	},
	{
		"request-counters", "the counter in the completion of a request is the position of its first block, up to 2^16",
		"provider/mlx5/sendqueue.go, test/connectx/sendqueue.go", []string{"wrap", "wrap-recorded", "unsignaled"}, requestCounters,
	},
	{
		"failure-counters", "failed and flushed requests and receives have the same counters as successful ones",
		"provider/mlx5/cqerror.go, test/connectx/retire.go", []string{"flush"}, failureCounters,
	},
	{
		"data-in-completions", "completions have data of at most 32 or 64 bytes, of SENDs, READs and atomics, and never with the scatter switched off",
		"provider/mlx5/scatter.go, test/connectx/receive.go", []string{"data-in-completions", "no-data-in-completions", "short-data", "atomics"}, scatteredData,
	},
	{
		"reset", "a device counts requests and receives from 0 after a reset of the QP",
		"provider/mlx5/modify.go, test/connectx/qpstate.go", []string{"reset"}, resetCounters,
	},
	{
		"resize", "the entry that ends the old ring of a resized CQ is there when the command returns",
		"provider/mlx5/cqcommand.go, test/connectx/cq.go", []string{"cq-resize"}, nil,
	},
	{
		"after-destroy", "no completion names a QP after the command that destroys or resets it",
		"provider/mlx5/qp.go, provider/mlx5/cqerror.go", []string{"destroy", "churn"}, explainedEntries,
	},
	{
		"srq-element", "an element of 0 bytes in an SRQ has room for no data",
		"provider/mlx5/srq.go, test/connectx/srq.go", []string{"zero-elements"}, nil,
	},
	{
		"flush", "all requests and receives of a QP in error complete, the later ones, too",
		"provider/mlx5/qpfail.go, test/connectx/retire.go", []string{"flush", "peer-death"}, nil,
	},
	{
		"arm", "a CQ that is armed with an old index fires at once",
		"provider/mlx5/cq.go, test/connectx/cq.go", []string{"events", "events-shared", "moderation"}, nil,
	},
	{
		"compressed", "compressed completions have the documented layouts",
		"provider/mlx5/compress.go, test/connectx/compress.go", []string{"compressed"}, nil,
	},
	{
		"windows", "the bits of a UMR that the driver sets are those that a card checks",
		"provider/mlx5/umr.go, test/connectx/umr.go", []string{"window1", "window2", "send-invalidate"}, nil,
	},
	{
		"doorbells", "the fences before a doorbell suffice, with BlueFlame and without",
		"internal/mmio, provider/mlx5/sendqueue.go", []string{"doorbells", "doorbells-plain", "doorbells-unlocked", "doorbells-storm", "doorbells-shared", "storm"}, nil,
	},
	{
		"fence", "a fenced request waits for the READs before it",
		"provider/mlx5/build.go, test/connectx/requester.go", []string{"fence"}, nil,
	},
}

// opinion is the outcome of a belief.
type opinion struct {
	*belief
	outcome  outcome
	evidence []string
}

// opinions compares a report with all beliefs.
func opinions(r *hwreport.Report, recordings []*recording) []opinion {
	results := map[string]*hwreport.Result{}
	for i := range r.Results {
		results[r.Results[i].ID] = &r.Results[i]
	}
	var list []opinion
	for i := range beliefs {
		o := opinion{belief: &beliefs[i], outcome: undecided}
		if r.Machine.Driver == "mlx5" {
			o.decide(results, recordings)
		} else {
			o.say("the device is no ConnectX")
		}
		if o.outcome == confirmed && r.Machine.Kind != hwreport.Card {
			o.outcome = undecided
			o.say("the device agrees, but it is no card")
		}
		list = append(list, o)
	}
	return list
}

func (o *opinion) say(format string, args ...any) {
	o.evidence = append(o.evidence, fmt.Sprintf(format, args...))
}

// decide sets the outcome. A failed check or a contradicting completion decides against the belief. It is confirmed if all
// of its checks have passed.
func (o *opinion) decide(results map[string]*hwreport.Result, recordings []*recording) {
	against, missing := false, false
	for _, id := range o.checks {
		r := results[id]
		switch {
		case r == nil:
			missing = true
			o.say("check %s has not run", id)
		case r.Status == hwreport.Fail || r.Unexplained():
			against = true
			o.say("check %s: %s %s", id, r.Status, clean(r.Reason))
		case r.Status != hwreport.Pass:
			missing = true
			o.say("check %s: %s %s", id, clean(string(r.Status)), clean(r.Reason))
		default:
			o.say("check %s has passed", id)
		}
	}
	if o.find != nil {
		var all findings
		for _, rec := range recordings {
			all.add(o.find(rec))
		}
		for _, b := range all.bad {
			against = true
			o.say("%s", b)
		}
		if len(all.bad) == 0 && all.good > 0 {
			o.say("%d recorded completions agree, %d of them decide it", all.good, all.extra)
		}
	}
	switch {
	case against:
		o.outcome = contradicted
	case !missing:
		o.outcome = confirmed
	}
}

// write writes the opinion as text.
func (o *opinion) write(w io.Writer) {
	fmt.Fprintf(w, "  %-12s %s: %s\n", o.outcome, o.id, o.text)
	if o.outcome == contradicted {
		fmt.Fprintf(w, "               relied on by %s\n", o.where)
	}
	for _, e := range o.evidence {
		fmt.Fprintf(w, "               %s\n", e)
	}
}
