// SPDX-License-Identifier: Apache-2.0

package tool

import (
	"context"
	"errors"
)

// Goal is a number of things that are to happen, in the goroutine that handles
// events, and that the first failure puts an end to.
type Goal struct {
	w      Waiter
	left   int
	failed error
}

// NewGoal returns one of n things.
func NewGoal(n int) *Goal { return &Goal{left: n} }

// Done notes that one of them has happened.
func (g *Goal) Done() { g.w.Do(func() { g.left-- }) }

// Fail notes a failure, unless err is nil.
func (g *Goal) Fail(err error) {
	g.w.Do(func() {
		if g.failed == nil {
			g.failed = err
		}
	})
}

// Wait waits until all have happened, or one has failed.
func (g *Goal) Wait(ctx context.Context) error {
	var failed error
	err := g.w.Until(ctx, func() bool {
		failed = g.failed
		return failed != nil || g.left <= 0
	})
	return errors.Join(err, failed)
}
