// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"time"

	"purerdma/cm"
	"purerdma/verbs"
)

// leaveTime is the time that clients have to disconnect before the server disconnects them.
const leaveTime = 60 * time.Second

// listen listens on a port that the system chooses.
func (m *mesh) listen() (*cm.ID, error) {
	id, err := m.ch.NewID(cm.IDConfig{})
	if err != nil {
		return nil, err
	}
	if err = id.Bind(m.local); err == nil {
		err = id.Listen(0)
	}
	if err != nil {
		id.Close()
		return nil, err
	}
	return id, nil
}

// serverRound accepts all connections of the clients and waits until they have disconnected.
func (m *mesh) serverRound(ctx context.Context, conns []*meshConn) error {
	if err := m.oob.sync(meshInit); err != nil {
		return err
	}
	if err := m.await(ctx, meshConnect, len(conns)); err != nil {
		return err
	}
	if err := m.oob.sync(meshConnect); err != nil {
		return err
	}
	if err := m.left(ctx, conns); err != nil {
		return err
	}
	if err := m.oob.sync(meshDisconnect); err != nil {
		return err
	}
	m.destroyQPs(conns)
	m.destroyIDs(conns)
	return nil
}

// left waits until all clients have disconnected, and disconnects late clients.
func (m *mesh) left(ctx context.Context, conns []*meshConn) error {
	for {
		wait, cancel := context.WithTimeout(ctx, leaveTime)
		err := m.await(wait, meshDisconnect, len(conns))
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
			return err
		}
		done := 0
		var late []*meshConn
		m.state.Do(func() {
			done = m.state.done[meshDisconnect]
			for _, c := range conns {
				if !c.over {
					c.over = true
					late = append(late, c)
				}
			}
		})
		m.u.Errorf("Timeout waiting for clients to disconnect (got %d/%d)\n", done, len(conns))
		for _, c := range late {
			m.work <- func() { m.answer(c) }
		}
	}
}

// request assigns a connect request to a connection of the round.
func (m *mesh) request(id *cm.ID) {
	var c *meshConn
	first := false
	m.state.Do(func() {
		if m.opt.listen && m.state.came < len(m.state.conns) {
			first = m.state.came == 0
			c = m.state.conns[m.state.came]
			c.id = id
			m.state.came++
		}
	})
	if c == nil {
		id.Reject(nil)
		id.Close()
		m.fail(errors.New("got more connect requests than the peers agreed on"))
		return
	}
	if first {
		m.u.Printf("\tAccepting\n")
		m.totals[meshConnect].start()
	}
	m.byID.Store(id, c)
	m.work <- func() { m.accept(c) }
}

func (m *mesh) accept(c *meshConn) {
	err := m.createQP(c)
	if err == nil {
		err = m.modify(c, verbs.QPInit, meshInit)
	}
	if err == nil {
		err = m.toRTS(c)
	}
	if err == nil {
		err = c.id.Accept(m.param(c))
	}
	if err != nil {
		m.fail(err)
	}
}

// gone records that a client has disconnected.
func (m *mesh) gone(c *meshConn) {
	if !m.opt.listen {
		return // the answer, which is not awaited
	}
	first, over := false, false
	m.state.Do(func() {
		first = m.state.left == 0
		m.state.left++
		over, c.over = c.over, true
	})
	if first {
		m.u.Printf("\tDisconnecting\n")
		m.totals[meshDisconnect].start()
	}
	if !over {
		m.work <- func() { m.answer(c) }
	}
}

// answer answers a client's disconnect.
func (m *mesh) answer(c *meshConn) {
	c.times[meshDisconnect].start()
	c.id.Disconnect() // the client may have ended
	c.times[meshDisconnect].stop()
	m.state.Do(func() {
		if m.state.done[meshDisconnect]++; m.state.done[meshDisconnect] == len(m.state.conns) {
			m.totals[meshDisconnect].stop()
		}
	})
}
