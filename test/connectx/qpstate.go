// SPDX-License-Identifier: Apache-2.0

package connectx

import "purerdma/test/connectx/prm"

// Fields that a transition takes from its context, always or depending on the command's
// optional parameters.
var (
	initFields = []prm.Field{
		prm.QPC.RemoteRead, prm.QPC.RemoteWrite, prm.QPC.RemoteAtomic, prm.QPC.AtomicMode, prm.QPC.QKey, prm.QPC.PMState,
		prm.QPC.CounterSet, prm.QPC.LagAffinity, prm.QPC.DETHSourceQPN,
	}
	rtrFields = []prm.Field{
		prm.QPC.MTU, prm.QPC.LogMsgMax, prm.QPC.RemoteQPN, prm.QPC.LogRRAMax, prm.QPC.MinRNRNAK, prm.QPC.NextRecvPSN, prm.QPC.LogAckReqFreq,
	}
	rtsFields = []prm.Field{prm.QPC.NextSendPSN, prm.QPC.LogSRAMax, prm.QPC.RetryCount, prm.QPC.RNRRetry}

	optFields = []struct {
		bit    uint64
		fields []prm.Field
	}{
		{prm.OptRemoteRead, []prm.Field{prm.QPC.RemoteRead}},
		{prm.OptRemoteWrite, []prm.Field{prm.QPC.RemoteWrite}},
		{prm.OptAtomic, []prm.Field{prm.QPC.RemoteAtomic, prm.QPC.AtomicMode}},
		{prm.OptQKey, []prm.Field{prm.QPC.QKey}},
		{prm.OptRNRTimeout, []prm.Field{prm.QPC.MinRNRNAK}},
		{prm.OptSRAMax, []prm.Field{prm.QPC.LogSRAMax}},
		{prm.OptRRAMax, []prm.Field{prm.QPC.LogRRAMax}},
		{prm.OptPMState, []prm.Field{prm.QPC.PMState}},
		{prm.OptRetryCount, []prm.Field{prm.QPC.RetryCount}},
		{prm.OptRNRRetry, []prm.Field{prm.QPC.RNRRetry}},
		{prm.OptCounterSet, []prm.Field{prm.QPC.CounterSet}},
		{prm.OptLagAffinity, []prm.Field{prm.QPC.LagAffinity}},
		{prm.OptDCKey, []prm.Field{prm.QPC.DCAccessKey}},
	}
)

// moveQP returns the command of one transition.
func moveQP(name string, from, to uint64) command {
	return command{name, prm.QPInLen, 16, func(d *Device, in, out []byte) error {
		q, err := d.findQP(uint32(prm.QPIn.QPN.Get(in)))
		if err != nil {
			return err
		}
		if q.state != from {
			return refuse(prm.StatusBadQPState, "QP %#x is in state %d, and the command is for state %d", q.n, q.state, from)
		}
		c := prm.QPIn.Context.Of(in)
		d.checkReserved(name, &prm.QPC, c)
		if err := q.change(c, from, to, prm.QPIn.OptParam.Get(in)); err != nil {
			return err
		}
		q.modifyECE(in, out)
		q.move(to)
		return nil
	}}
}

// change applies the fields of a transition.
func (q *qp) change(c []byte, from, to, opt uint64) error {
	own := q.context[:]
	take := func(fields []prm.Field) {
		for _, f := range fields {
			f.Set(own, f.Get(c))
		}
	}
	path := func(fields ...prm.Field) {
		for _, f := range fields {
			f.Set(prm.QPC.Primary.Of(own), f.Get(prm.QPC.Primary.Of(c)))
		}
	}
	if to == prm.QPRTR && q.connected() {
		if mtu := prm.QPC.MTU.Get(c); mtu < 1 || mtu > 5 {
			return refuse(prm.StatusBadParam, "QP %#x cannot have a path MTU of %d", q.n, mtu)
		}
	}
	switch {
	case from == prm.QPReset:
		take(initFields)
		path(prm.ADS.PKeyIndex, prm.ADS.Port)
	case from == prm.QPInit && to == prm.QPRTR:
		take(rtrFields)
		key, port := prm.ADS.PKeyIndex.Get(prm.QPC.Primary.Of(own)), prm.ADS.Port.Get(prm.QPC.Primary.Of(own))
		copy(prm.QPC.Primary.Of(own), prm.QPC.Primary.Of(c))
		prm.ADS.PKeyIndex.Set(prm.QPC.Primary.Of(own), key)
		prm.ADS.Port.Set(prm.QPC.Primary.Of(own), port)
		q.recvPSN = uint32(prm.QPC.NextRecvPSN.Get(c))
	case from == prm.QPRTR && to == prm.QPRTS:
		take(rtsFields)
		path(prm.ADS.AckTimeout)
		q.sendPSN = uint32(prm.QPC.NextSendPSN.Get(c))
	}
	for _, o := range optFields {
		if opt&o.bit != 0 {
			take(o.fields)
		}
	}
	if opt&prm.OptPKeyIndex != 0 {
		path(prm.ADS.PKeyIndex)
	}
	if opt&prm.OptPort != 0 {
		path(prm.ADS.Port)
	}
	if opt&prm.OptAckTimeout != 0 {
		path(prm.ADS.AckTimeout)
	}
	if opt&prm.OptPrimary != 0 {
		copy(prm.QPC.Primary.Of(own), prm.QPC.Primary.Of(c))
	}
	return nil
}

// move changes the QP's state and starts the activity of that state.
func (q *qp) move(to uint64) {
	q.state = to
	switch to {
	case prm.QPRTR:
		q.established = false
	case prm.QPRTS:
		q.retriesLeft, q.rnrLeft = q.retryCount(), q.rnrRetry()
		q.run()
	}
}

func qpToErr(d *Device, in, _ []byte) error {
	q, err := d.findQP(uint32(prm.QPIn.QPN.Get(in)))
	if err != nil {
		return err
	}
	q.toErr()
	return nil
}

func qpToReset(d *Device, in, _ []byte) error {
	q, err := d.findQP(uint32(prm.QPIn.QPN.Get(in)))
	if err != nil {
		return err
	}
	q.stop()
	q.reset()
	return nil
}

// reset discards all posted requests.
func (q *qp) reset() {
	q.state = prm.QPReset
	q.ece = q.granted
	q.requester.reset()
	q.responder = responder{}
	if q.recv != nil && q.srq == nil {
		q.recv.before += q.recv.taken
		q.recv.head, q.recv.taken = 0, 0
	}
}

// toErr moves the QP to the error state, which flushes everything posted.
func (q *qp) toErr() {
	if q.state == prm.QPErr {
		return
	}
	q.state = prm.QPErr
	q.unblock()
	q.flushed = flushInterval / 2
	q.flush()
	if q.srq != nil {
		q.d.queueEvent(prm.EventSRQLastWQE, q.n, prm.QueueTypeQP)
	}
}

// fatal moves the QP to the error state and notifies the driver of the reason.
func (q *qp) fatal(why prm.EventType) {
	if q.state == prm.QPErr || q.state == prm.QPReset {
		return
	}
	q.d.queueEvent(why, q.n, prm.QueueTypeQP)
	q.toErr()
}

// flush completes everything posted without executing it. The QP continues to poll, because
// later receives have no doorbell.
func (q *qp) flush() {
	q.flushSends()
	if q.recv == nil || q.srq != nil {
		return
	}
	for range q.recv.posted(q.d) {
		w, ok := q.recv.peek(q.d, q)
		if !ok {
			break
		}
		q.recv.take(w)
		q.completeReceive(w, prm.SyndromeFlush)
		q.flushed = flushInterval / 2 // the driver still posts
	}
	q.flushed = min(2*q.flushed, flushLongest)
	q.wait(q.flushed, q.flush)
}
