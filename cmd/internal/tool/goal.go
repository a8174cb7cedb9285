// SPDX-License-Identifier: Apache-2.0

package tool

import (
	"context"
	"errors"
)

// Goal counts down a number of expected events. The first failure ends it. The goroutine that
// handles events updates it.
type Goal struct {
	w      Waiter
	left   int
	failed error
}

// NewGoal returns a Goal of n events.
func NewGoal(n int) *Goal { return &Goal{left: n} }

// Done records one event.
func (g *Goal) Done() { g.w.Do(func() { g.left-- }) }

// Fail records a failure, unless err is nil.
func (g *Goal) Fail(err error) {
	g.w.Do(func() {
		if g.failed == nil {
			g.failed = err
		}
	})
}

// Wait waits until all events have happened or one has failed.
func (g *Goal) Wait(ctx context.Context) error {
	var failed error
	err := g.w.Until(ctx, func() bool {
		failed = g.failed
		return failed != nil || g.left <= 0
	})
	return errors.Join(err, failed)
}
