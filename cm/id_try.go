// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"slices"

	"purerdma/ucma"
	"purerdma/verbs"
)

// try is a command that takes the ID into a new state, while nobody knows whether it
// will. The events that end that state may be fetched before the command returns, so
// the try has its own view of the ID; it becomes that of the ID if the command succeeds,
// and is forgotten if it fails.
type try struct {
	after  State // what the ID is in if it succeeds, with the events that have come since
	to     Addr  // of ResolveAddr: the ID's peer, until the kernel tells it
	strict bool  // the kernel is not asked if the state does not allow it

	wrong bool // the state does not allow it, as far as is known: the ID is not in after yet
	flush bool // if it succeeds, what has come since has ended the connection
}

// commandIn is command for one that takes the ID into a new state.
func (id *ID) commandIn(op string, state State, fn func(f *ucma.File, kid uint32) error) error {
	return id.attempt(op, &try{after: state}, fn)
}

// attempt is commandIn for a try that has more to it.
func (id *ID) attempt(op string, t *try, fn func(f *ucma.File, kid uint32) error) error {
	return id.command(op, func(f *ucma.File, kid uint32) error {
		if err := id.begin(op, t); err != nil {
			return err
		}
		err := fn(f, kid)
		if qp := id.end(t, err); qp != nil {
			flushQP(qp)
		}
		return err
	})
}

func (id *ID) begin(op string, t *try) error {
	id.mu.Lock()
	defer id.mu.Unlock()
	was := id.current()
	t.wrong = !slices.Contains(possible[op], was)
	if was == StateRemoved || t.wrong && t.strict {
		return wrongState(was, possible[op]...)
	}
	id.tries = append(id.tries, t)
	return nil
}

// end returns the QP if it is to be flushed.
func (id *ID) end(t *try, err error) (flush *verbs.QP) {
	id.mu.Lock()
	defer id.mu.Unlock()
	i := slices.Index(id.tries, t)
	id.tries = slices.Delete(id.tries, i, i+1)
	if err != nil {
		return nil
	}
	id.settle(t.after)
	if t.to.IsValid() {
		id.remote = t.to
	}
	if t.flush {
		return id.qp
	}
	return nil
}

// settle takes the ID to a state that it is in for certain. In the kernel, calls lead
// forward only: one that runs meanwhile and succeeds leads no less far, whichever of
// them the kernel has had first. The caller holds id.mu.
func (id *ID) settle(state State) {
	id.state = state
	for _, t := range id.tries {
		t.after = max(t.after, state)
	}
}

// current returns the state of the ID, if the commands that run and that it allows
// succeed. The caller holds id.mu.
func (id *ID) current() State {
	for _, t := range slices.Backward(id.tries) {
		if !t.wrong {
			return t.after
		}
	}
	return id.state
}

// swapState takes the ID from one state to another, and returns the one that it was
// in: if that is not from, nothing has changed.
func (id *ID) swapState(from, to State) (was State) {
	id.mu.Lock()
	defer id.mu.Unlock()
	was = id.current()
	if was == from {
		id.settle(to)
	}
	return was
}

// advance makes the transition of the table that an event means, also in the states
// that the ID would be in if the commands that run should succeed, and returns what
// there is to do. The caller holds id.mu.
func (id *ID) advance(t EventType) action {
	k := id.kind()
	st := transition(id.state, t, k)
	id.state = st.next
	do := st.do
	for _, try := range id.tries {
		st := transition(try.after, t, k)
		try.after = st.next
		switch st.do {
		case actNone:
		case actFlush:
			try.flush = true // a call that fails ends no connection
		default:
			do = st.do
		}
	}
	return do
}
