// SPDX-License-Identifier: Apache-2.0

package main

import (
	"time"

	"purerdma/cm"
	"purerdma/verbs"
)

// createQP creates the QP of a connection. The connection manager does not know the QP, so that
// the program moves it itself.
func (m *mesh) createQP(c *meshConn) error {
	pd, err := c.id.Device().DefaultPD()
	if err != nil {
		return err
	}
	cq, err := m.cqs.On(c.id.Device())
	if err != nil {
		return err
	}
	sp := &c.times[meshCreateQP]
	sp.start()
	if m.qps {
		c.qp, err = pd.CreateQP(verbs.QPConfig{
			Type: verbs.RC, SendCQ: cq, RecvCQ: cq, SignalAll: true,
			Cap: verbs.QPCap{SendWR: 1, RecvWR: 1, SendSGE: 1, RecvSGE: 1},
		})
	} else {
		time.Sleep(m.delay)
	}
	sp.stop()
	return err
}

// modify moves a connection's QP. Querying the attributes is the previous step, s-1.
func (m *mesh) modify(c *meshConn, state verbs.QPState, s meshStep) error {
	c.times[s-1].start()
	attr, mask, err := c.id.InitQPAttr(state)
	if err != nil {
		return err
	}
	c.times[s-1].stop()
	c.times[s].start()
	if c.qp != nil {
		err = c.qp.Modify(&attr, mask)
	} else {
		time.Sleep(m.delay)
	}
	c.times[s].stop()
	return err
}

// toRTS moves a QP from INIT to RTS.
func (m *mesh) toRTS(c *meshConn) error {
	if err := m.modify(c, verbs.QPRTR, meshRTR); err != nil {
		return err
	}
	return m.modify(c, verbs.QPRTS, meshRTS)
}

// param returns the parameters of both sides. As in C, they have no retries.
func (m *mesh) param(c *meshConn) *cm.ConnParam {
	p := &cm.ConnParam{ResponderResources: 1, InitiatorDepth: 1, RetryCount: cm.None, RNRRetryCount: cm.None}
	if c.qp != nil {
		p.QPNum = c.qp.Num()
	} else {
		p.QPNum = (m.qpn.Add(1) - 1) & maxQPN
	}
	return p
}

// destroyQPs and destroyIDs release the connections.

func (m *mesh) destroyQPs(conns []*meshConn) {
	m.totals[meshDestroyQP].start()
	for _, c := range conns {
		c.times[meshDestroyQP].start()
		if c.qp != nil {
			c.qp.Close()
		}
		c.times[meshDestroyQP].stop()
	}
	m.totals[meshDestroyQP].stop()
}

func (m *mesh) destroyIDs(conns []*meshConn) {
	m.totals[meshDestroyID].start()
	for _, c := range conns {
		c.times[meshDestroyID].start()
		c.id.Close()
		m.byID.Delete(c.id)
		c.times[meshDestroyID].stop()
	}
	m.totals[meshDestroyID].stop()
}
