// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

	"purerdma/cm"
	"purerdma/verbs"
)

// clientRound connects to the listeners in turn, and disconnects.
func (m *mesh) clientRound(ctx context.Context, conns []*meshConn) error {
	m.assign(conns)
	m.totals[meshFullConnect].start()
	if err := m.createIDs(conns); err != nil {
		return err
	}
	m.u.Printf("\tResolving addresses\n")
	if err := m.spread(ctx, meshResolveAddr, conns, func(c *meshConn) {
		c.retries = m.opt.retries
		c.times[meshResolveAddr].start()
		if err := c.id.ResolveAddr(m.local, c.to, m.opt.timeout); err != nil {
			m.fail(err)
		}
	}); err != nil {
		return err
	}
	m.u.Printf("\tResolving routes\n")
	if err := m.spread(ctx, meshResolveRoute, conns, func(c *meshConn) {
		c.retries = m.opt.retries
		c.times[meshResolveRoute].start()
		if err := c.id.ResolveRoute(m.opt.timeout); err != nil {
			m.fail(err)
		}
	}); err != nil {
		return err
	}
	m.u.Printf("\tCreating QPs\n")
	if err := m.spread(ctx, meshCreateQP, conns, func(c *meshConn) { m.step(meshCreateQP, m.createQP(c)) }); err != nil {
		return err
	}
	m.u.Printf("\tModify QPs to INIT\n")
	if err := m.spread(ctx, meshInit, conns, func(c *meshConn) { m.step(meshInit, m.modify(c, verbs.QPInit, meshInit)) }); err != nil {
		return err
	}
	if err := m.oob.sync(meshInit); err != nil {
		return err
	}
	if err := m.connect(ctx, conns); err != nil {
		return err
	}
	return m.disconnect(ctx, conns)
}

// assign distributes the connections over the listeners.
func (m *mesh) assign(conns []*meshConn) {
	p := 0
	for _, c := range conns {
		for !m.peers[p].listen {
			p = (p + 1) % len(m.peers)
		}
		c.to = m.peers[p].addr
		p = (p + 1) % len(m.peers)
	}
}

// createIDs creates the IDs and binds them.
func (m *mesh) createIDs(conns []*meshConn) error {
	m.u.Printf("\tCreating IDs\n")
	m.totals[meshCreateID].start()
	for _, c := range conns {
		c.times[meshFullConnect].start()
		c.times[meshCreateID].start()
		id, err := m.ch.NewID(cm.IDConfig{})
		if err != nil {
			return err
		}
		c.times[meshCreateID].stop()
		c.id = id
		m.byID.Store(id, c)
	}
	m.totals[meshCreateID].stop()
	m.u.Printf("\tBinding addresses\n")
	m.totals[meshBind].start()
	for _, c := range conns {
		c.times[meshBind].start()
		if err := c.id.Bind(m.local); err != nil {
			return err
		}
		c.times[meshBind].stop()
	}
	m.totals[meshBind].stop()
	return nil
}

func (m *mesh) connect(ctx context.Context, conns []*meshConn) error {
	m.u.Printf("\tConnecting\n")
	m.totals[meshConnect].start()
	for portion, pending := range portions(conns) {
		for _, c := range portion {
			c.times[meshConnect].start()
			if err := c.id.Connect(m.param(c)); err != nil {
				return err
			}
		}
		if err := m.await(ctx, meshConnect, len(conns)-pending); err != nil {
			return err
		}
	}
	m.totals[meshConnect].stop()
	m.totals[meshFullConnect].stop()
	return m.oob.sync(meshConnect)
}

// confirm completes this side of a connection after the peer's side.
func (m *mesh) confirm(c *meshConn) {
	err := m.toRTS(c)
	if err == nil {
		c.times[meshEstablish].start()
		err = c.id.Establish()
		c.times[meshEstablish].stop()
	}
	c.times[meshConnect].stop()
	c.times[meshFullConnect].stop()
	m.step(meshConnect, err)
}

// disconnect waits until all peers have disconnected, but not for their answers.
func (m *mesh) disconnect(ctx context.Context, conns []*meshConn) error {
	m.u.Printf("\tDisconnecting\n")
	if err := m.spread(ctx, meshDisconnect, conns, func(c *meshConn) {
		c.times[meshDisconnect].start()
		err := c.id.Disconnect()
		c.times[meshDisconnect].stop()
		m.step(meshDisconnect, err)
	}); err != nil {
		return err
	}
	if err := m.oob.sync(meshDisconnect); err != nil {
		return err
	}
	m.u.Printf("\tDestroying QPs\n")
	m.destroyQPs(conns)
	m.u.Printf("\tDestroying IDs\n")
	m.destroyIDs(conns)
	return nil
}
