// SPDX-License-Identifier: Apache-2.0

package pingpong

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"purerdma/cmd/internal/tool"
	"purerdma/oob"
	"purerdma/verbs"
)

// Numbers of work requests. They are bits of node.pending.
const (
	idRecv = 1
	idSend = 2
)

// Sizes of the parts of the buffer that precede the messages, in bytes.
const (
	filling    = 0x7b
	fillingSRQ = 0
)

// node is one side of a run.
type node struct {
	Kind
	opt *options
	u   *tool.UI

	dev  *verbs.Device
	pd   *verbs.PD
	mr   *verbs.MR
	cq   *verbs.CQ
	srq  *verbs.SRQ // nil except for SRQ
	qps  []*verbs.QP
	ah   *verbs.AH // for UD
	path oob.Path
	own  []oob.Address

	remote []oob.Address

	recv    []verbs.RecvWR // template of all receives
	send    []verbs.SendWR
	batch   verbs.Batch
	inline  bool
	routs   int // posted receives
	pending []int
}

// fail prints the C program's message and the cause, and returns err.
func (n *node) fail(err error, format string, args ...any) error {
	n.u.Errorf("%s\n%s: %v\n", fmt.Sprintf(format, args...), n.Name, err)
	return err
}

// run runs everything except close.
func (n *node) run(ctx context.Context) error {
	for _, step := range []func() error{n.open, n.memory, n.queues, n.initQPs, n.firstReceives, n.address} {
		if err := step(); err != nil {
			return err
		}
	}
	if err := n.meet(ctx); err != nil {
		return err
	}
	took, err := n.exchange(ctx)
	if err != nil {
		return err
	}
	n.report(took)
	return nil
}

// qpName names a QP in messages.
func (n *node) qpName(i int) string {
	if n.SRQ {
		return fmt.Sprintf("QP[%d]", i)
	}
	return "QP"
}

func (n *node) open() (err error) {
	if n.dev, err = tool.OpenDevice(n.u, n.opt.dev); err != nil {
		return err
	}
	if n.Type == verbs.UD {
		port, err := n.dev.QueryPort(uint8(n.opt.ibPort))
		if err != nil {
			return n.fail(err, "Unable to query port info for port %d", n.opt.ibPort)
		}
		if mtu := port.ActiveMTU.Bytes(); n.opt.size > mtu {
			return n.fail(fmt.Errorf("%d bytes do not fit into a packet", n.opt.size), "Requested size larger than port MTU (%d)", mtu)
		}
	}
	if n.pd, err = n.dev.AllocPD(); err != nil {
		return n.fail(err, "Couldn't allocate PD")
	}
	return n.features()
}

// features rejects options that the device does not support.
func (n *node) features() error {
	a := n.dev.Attr()
	const need = verbs.ODPSend | verbs.ODPRecv
	const needSRQ = verbs.ODPSend | verbs.ODPSRQRecv
	var why string
	switch {
	case n.opt.unprot: // libmlx5 implements it with parent domains, which only the C library has
		return n.fail(errors.ErrUnsupported, "Couldn't allocate parent domain")
	case n.opt.odp && !n.SRQ && (!a.ODP.Supported || a.ODP.RC&need != need):
		why = "The device isn't ODP capable or does not support RC send and receive with ODP"
	case n.opt.odp && n.SRQ && (!a.ODP.Supported || a.ODP.RC&needSRQ != needSRQ):
		why = "The device isn't ODP capable or does not support RC send, receive and srq with ODP"
	case n.opt.iodp && !a.ODP.Implicit:
		why = "The device doesn't support implicit ODP"
	case n.opt.ts && a.TimestampMask == 0:
		why = "The device isn't completion timestamp capable"
	case n.opt.dm && a.MaxDMSize == 0:
		why = "Device doesn't support dm allocation"
	case n.opt.iodp:
		return n.fail(errors.ErrUnsupported, "Couldn't register MR")
	case n.opt.ts:
		return n.fail(errors.ErrUnsupported, "Couldn't create CQ")
	case n.opt.dm:
		return n.fail(errors.ErrUnsupported, "Dev mem allocation failed")
	default:
		return nil
	}
	n.u.Errorf("%s\n", why)
	return errors.New(why)
}

// head returns the number of bytes before the message in a receive.
func (n *node) head() int {
	if n.Type == verbs.UD {
		return verbs.GRHLen
	}
	return 0
}

// message returns the memory of sent and received messages.
func (n *node) message() verbs.SGE { return n.mr.Slice(n.head(), n.opt.size) }

func (n *node) memory() (err error) {
	access := verbs.LocalWrite
	if n.opt.odp {
		access |= verbs.OnDemand
	}
	if n.mr, err = n.pd.Alloc(n.opt.size+n.head(), access); err != nil {
		return n.fail(err, "Couldn't register MR")
	}
	fill := byte(filling)
	if n.SRQ {
		fill = fillingSRQ
	}
	b := n.mr.Bytes()
	for i := range b {
		b[i] = fill
	}
	if n.opt.fetch {
		if err := n.pd.Advise(verbs.PrefetchWrite, true, n.mr.SGE()); err != nil {
			n.fail(err, "Couldn't prefetch MR(%d). Continue anyway", tool.Errno(err))
		}
	}
	return nil
}

func (n *node) queues() (err error) {
	o := n.opt
	if n.cq, err = n.dev.CreateCQ(verbs.CQConfig{Entries: o.depth + o.qps, NoEvents: !o.events}); err != nil {
		return n.fail(err, "Couldn't create CQ")
	}
	cfg := verbs.QPConfig{Type: n.Type, SendCQ: n.cq, RecvCQ: n.cq, Cap: verbs.QPCap{SendWR: 1, SendSGE: 1, RecvWR: o.depth, RecvSGE: 1}}
	if n.SRQ {
		if n.srq, err = n.pd.CreateSRQ(verbs.SRQConfig{MaxWR: o.depth, MaxSGE: 1}); err != nil {
			return n.fail(err, "Couldn't create SRQ")
		}
		cfg.SRQ, cfg.Cap.RecvWR, cfg.Cap.RecvSGE = n.srq, 0, 0
	}
	for i := range o.qps {
		qp, err := n.pd.CreateQP(cfg)
		if err != nil {
			return n.fail(err, "Couldn't create %s", n.qpName(i))
		}
		n.qps = append(n.qps, qp)
		n.inline = qp.Cap().Inline >= o.size
	}
	n.pending = make([]int, len(n.qps))
	return nil
}

// initQPs moves the QPs to INIT. Their GID is not known yet.
func (n *node) initQPs() error {
	n.path = oob.Path{Port: uint8(n.opt.ibPort), SL: uint8(n.opt.sl), MTU: n.opt.mtu, RetryCount: 7}
	for i, qp := range n.qps {
		if err := n.path.Init(qp); err != nil {
			return n.fail(err, "Failed to modify %s to INIT", n.qpName(i))
		}
	}
	return nil
}

func (n *node) firstReceives() error {
	n.recv = []verbs.RecvWR{{ID: idRecv, SGList: []verbs.SGE{n.mr.SGE()}}}
	return n.postReceives()
}

// postReceives posts receives up to the required number.
func (n *node) postReceives() (err error) {
	for n.routs < n.opt.depth && err == nil {
		if n.srq != nil {
			_, err = n.srq.PostRecv(n.recv)
		} else {
			_, err = n.qps[0].PostRecv(n.recv)
		}
		if err == nil {
			n.routs++
		}
	}
	if err != nil {
		return n.fail(err, "Couldn't post receive (%d)", n.routs)
	}
	return nil
}

// address determines and prints the address for the peer.
func (n *node) address() error {
	port, err := n.dev.QueryPort(uint8(n.opt.ibPort))
	if err != nil {
		return n.fail(err, "Couldn't get port info")
	}
	if n.Type != verbs.UD && port.LinkLayer != verbs.LinkEthernet && port.LID == 0 {
		return n.fail(errors.New("is there a subnet manager?"), "Couldn't get local LID")
	}
	gid, err := n.sourceGID(port)
	if err != nil {
		return err
	}
	for _, qp := range n.qps {
		own := oob.NewAddress(qp, port.LID, gid)
		n.own = append(n.own, own)
		s := own.String()
		if n.Type == verbs.UD {
			// Only ibv_ud_pingpong has a colon in this line.
			s = fmt.Sprintf("LID 0x%04x, QPN 0x%06x, PSN 0x%06x: GID %v", own.LID, own.QPN, own.PSN, own.GID)
		}
		n.u.Printf("  local address:  %s\n", s)
	}
	return nil
}

// sourceGID returns the GID of -g. Without -g it returns none if a LID is sufficient, and
// otherwise a suitable GID.
func (n *node) sourceGID(port verbs.PortAttr) (verbs.GID, error) {
	if n.opt.gid < 0 {
		if port.LinkLayer != verbs.LinkEthernet {
			return verbs.GID{}, nil
		}
		g, err := n.dev.GIDFor(uint8(n.opt.ibPort), netip.Addr{})
		if err != nil {
			n.u.Fail(err)
			return verbs.GID{}, err
		}
		n.path.SGIDIndex = g.Index
		return g.GID, nil
	}
	g, err := n.dev.GID(uint8(n.opt.ibPort), n.opt.gid)
	if err != nil {
		if n.Type == verbs.UD || n.SRQ {
			return verbs.GID{}, n.fail(err, "Could not get local gid for gid index %d", n.opt.gid)
		}
		return verbs.GID{}, n.fail(err, "can't read sgid of index %d", n.opt.gid)
	}
	n.path.SGIDIndex = g.Index
	return g.GID, nil
}

// close releases everything.
func (n *node) close() error {
	var errs []error
	for _, qp := range n.qps {
		errs = append(errs, qp.Close())
	}
	if n.srq != nil {
		errs = append(errs, n.srq.Close())
	}
	if n.cq != nil {
		errs = append(errs, n.cq.Close())
	}
	if n.mr != nil {
		errs = append(errs, n.mr.Close())
	}
	if n.ah != nil {
		errs = append(errs, n.ah.Close())
	}
	if n.pd != nil {
		errs = append(errs, n.pd.Close())
	}
	if n.dev != nil {
		errs = append(errs, n.dev.Close())
	}
	return errors.Join(errs...)
}
