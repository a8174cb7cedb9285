// SPDX-License-Identifier: Apache-2.0

package mlx5dv

import (
	"errors"
	"sync"

	"purerdma/provider/mlx5"
	"purerdma/verbs"
)

// DCTConfig configures a DC target.
type DCTConfig struct {
	PD  *verbs.PD
	CQ  *verbs.CQ
	SRQ *verbs.SRQ // has the receives
	Key uint64     // must match the key of each request
}

// DCIConfig configures a DC initiator.
type DCIConfig struct {
	PD        *verbs.PD
	CQ        *verbs.CQ
	Cap       verbs.QPCap // of sends
	SignalAll bool        // see verbs.QPConfig
	Unlocked  bool        // see verbs.QPConfig
	// LogStreams is the logarithm of the number of streams that may be used at a time.
	// LogErroredStreams is the logarithm of the number of streams that may fail before the DCI
	// fails. A failed stream does not affect the other streams. 0 and 0 means no streams.
	LogStreams, LogErroredStreams uint8
}

// DCWR is a request for a DC initiator. AH and RemoteQPN name the target.
type DCWR = mlx5.DCWR

// dcQP is a DC target or initiator. It keeps its PD, CQ and SRQ until it is closed.
type dcQP struct {
	dev *Device
	p   *mlx5.QP

	mu          sync.Mutex
	closed      bool
	drop, retry func() error // of the parents
}

// DCT is a DC target (mlx5dv_create_qp(3)), to which any DCI may send. Its methods may be
// called concurrently.
type DCT struct{ dcQP }

// DCI is a DC initiator (mlx5dv_create_qp(3)). Each request names its target, and the devices
// connect and disconnect as needed. Its methods may be called concurrently.
type DCI struct{ dcQP }

// CreateDCT creates a DC target. Move it to INIT and to RTR, where it gets its number. A DCT
// posts nothing. Its receives are posted to its SRQ. The caller closes it.
func (d *Device) CreateDCT(cfg DCTConfig) (*DCT, error) {
	t := &DCT{dcQP{dev: d}}
	err := t.create(cfg.PD, cfg.CQ, cfg.SRQ, func() (*mlx5.QP, error) {
		pcfg := &mlx5.DCTConfig{PD: cfg.PD.Provider(), CQ: cfg.CQ.Provider(), Key: cfg.Key}
		if cfg.SRQ != nil {
			pcfg.SRQ = cfg.SRQ.Provider()
		}
		return d.ctx.CreateDCT(pcfg)
	})
	if err != nil {
		return nil, d.opError("create DC target on", err)
	}
	return t, nil
}

// CreateDCI creates a DC initiator. Move it to RTS like a QP of type RC, but without an address
// and without a peer's number. The caller closes it.
func (d *Device) CreateDCI(cfg DCIConfig) (*DCI, error) {
	i := &DCI{dcQP{dev: d}}
	err := i.create(cfg.PD, cfg.CQ, nil, func() (*mlx5.QP, error) {
		return d.ctx.CreateDCI(&mlx5.DCIConfig{
			PD: cfg.PD.Provider(), CQ: cfg.CQ.Provider(), Cap: cfg.Cap, SignalAll: cfg.SignalAll, Unlocked: cfg.Unlocked,
			LogStreams: cfg.LogStreams, LogErroredStreams: cfg.LogErroredStreams,
		})
	})
	if err != nil {
		return nil, d.opError("create DC initiator on", err)
	}
	return i, nil
}

// create creates the QP after its parents have counted it.
func (q *dcQP) create(pd *verbs.PD, cq *verbs.CQ, srq *verbs.SRQ, create func() (*mlx5.QP, error)) (err error) {
	if q.drop, q.retry, err = internals.Hold(pd, cq, srq); err != nil {
		return err
	}
	if q.p, err = create(); err != nil {
		return errors.Join(err, q.drop())
	}
	return nil
}

// Num returns the number that initiators use for a DCT, or 0 before RTR.
func (q *dcQP) Num() uint32 { return q.p.Num() }

// State returns the last state that Modify moved the QP to.
func (q *dcQP) State() verbs.QPState { return q.p.State() }

// Modify changes the attributes in mask. With QPAttrState it also changes the state
// (ibv_modify_qp(3)).
func (q *dcQP) Modify(attr *verbs.QPAttr, mask verbs.QPAttrMask) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.dev.opError("modify DC QP of", q.p.Modify(attr, mask))
}

// Close destroys the QP. It may be called more than once. After an error, the next call retries
// the failed step.
func (q *dcQP) Close() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	end := q.retry
	if !q.closed {
		if err := q.p.Close(); err != nil {
			return q.dev.opError("destroy DC QP of", err)
		}
		q.closed, end = true, q.drop
	}
	return q.dev.opError("destroy DC QP of", end())
}

// Post posts the requests in order and rings the doorbell once. It returns the number of posted
// requests. After an error, this is the number of requests before the failed one (verbs.ErrFull
// if the queue has no room). The error is a *verbs.OpError. Post does not allocate.
func (i *DCI) Post(wrs []DCWR) (int, error) {
	n, err := i.p.PostDC(wrs)
	if err != nil {
		err = i.dev.opError("post to DC initiator of", err)
	}
	return n, err
}
