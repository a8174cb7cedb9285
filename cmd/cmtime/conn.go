// SPDX-License-Identifier: Apache-2.0

package main

import (
	"purerdma/cm"
	"purerdma/cmd/internal/tool"
	"purerdma/verbs"
)

// conn is one connection of the client.
type conn struct {
	id      *cm.ID
	qp      *verbs.QP
	times   [numSteps]span
	retries int // remaining retries of resolving
	failed  bool
}

// maker creates the QPs of either side.
type maker struct {
	cqs tool.PerDevice[*verbs.CQ]
}

func newMaker() *maker {
	m := &maker{}
	m.cqs.Make = func(dev *verbs.Device) (*verbs.CQ, error) {
		return dev.CreateCQ(verbs.CQConfig{Entries: 1, NoEvents: true})
	}
	return m
}

// close releases the CQs after all QPs have been closed.
func (m *maker) close() { m.cqs.Close() }

// create creates a QP for one message each way on the device's default PD, and moves it to
// INIT. No work request is ever posted. All QPs share one CQ. The C program's QPs have none.
func (m *maker) create(id *cm.ID) (*verbs.QP, error) {
	pd, err := id.Device().DefaultPD()
	if err != nil {
		return nil, err
	}
	cq, err := m.cqs.On(id.Device())
	if err != nil {
		return nil, err
	}
	qp, err := pd.CreateQP(verbs.QPConfig{
		Type: verbs.RC, SendCQ: cq, RecvCQ: cq,
		Cap: verbs.QPCap{SendWR: 1, RecvWR: 1, SendSGE: 1, RecvSGE: 1},
	})
	if err != nil {
		return nil, err
	}
	if err := id.UseQP(qp); err != nil {
		qp.Close()
		return nil, err
	}
	return qp, nil
}
