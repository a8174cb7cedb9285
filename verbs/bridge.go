// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"context"

	"purerdma/internal/bridge"
)

func init() {
	bridge.Functions = &bridge.Verbs[*Host, *Device, *QP, *CQ, *SRQ, *WC]{
		OpenIndex:   (*Host).openIndex,
		HostValue:   (*Host).cmValue,
		MarkRemoved: func(d *Device) { d.remove() },
		Closed:      func(q *QP) context.Context { return q.gone.context() },
		Attach:      (*QP).attach,
		Watch:       (*QP).watch,
		Exclusive:   (*CQ).exclusive,
		OwnsCQs:     (*QP).ownsCQs,
		Handle:      (*CQ).dispatchTo,
		Lead:        (*CQ).lead,
		OnRelease:   (*SRQ).onRelease,
		Unused:      (*SRQ).unused,
		WakeLeader:  (*CQ).wakeLeader,
		Drain:       (*CQ).drain,
	}
	bridge.PoolFunctions = &bridge.Pool[*PD, *MR, Access]{
		Alloc:   (*PD).alloc,
		OpError: func(p *PD, op string, err error) error { return p.dev.opError(op, err) },
	}
	bridge.CountingFunctions = &bridge.Counting[*Host, *QP, *PD]{
		Host: (*Host).countObject,
		QP:   (*QP).countOf,
		PD: func(p *PD, kind string, read func(*bridge.Counts)) (done func()) {
			return p.dev.host.countObject(kind, read)
		},
		Sums: (*Host).objectCounts,
	}
	bridge.VendorFunctions = &bridge.Vendor[*Device, *PD, *CQ, *SRQ, CQConfig]{
		CreateCQ: (*Device).createVendorCQ,
		Hold:     holdParents,
		OpError:  func(d *Device, op string, err error) error { return d.opError(op, err) },
	}
}
