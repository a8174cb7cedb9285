// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"context"
	"fmt"
	"syscall"

	"purerdma/internal/cdev"
)

var (
	errNoInfo  = fmt.Errorf("no AddrInfo is given: %w", syscall.EINVAL)
	errPassive = fmt.Errorf("the AddrInfo is one to listen on (AddrInfoPassive): %w", syscall.EINVAL)
	errActive  = fmt.Errorf("the AddrInfo is not one to listen on (AddrInfoPassive): %w", syscall.EINVAL)
)

// ResolveInfo is Resolve for what LookupAddrInfo has found
// (rdma_create_ep(3), active side): each in turn, until one has a device and a
// route. The source address and the QP type of an AddrInfo go before LocalAddr
// and QP.Type, its route is taken instead of the subnet's, and its connect data
// goes to the peer before the private data. The default QP is made of QP when it
// is first wanted, not at once.
//
// If none can be reached, the error is the first one's.
func (d *Dialer) ResolveInfo(ctx context.Context, infos ...AddrInfo) (*Resolved, error) {
	return firstOf(ctx, infos, d.resolveActive)
}

// DialInfo connects to the first of infos that takes the connection: ResolveInfo
// and Connect in one, each in turn. If none does, the error is the first one's.
func (d *Dialer) DialInfo(ctx context.Context, infos ...AddrInfo) (*Conn, error) {
	return firstOf(ctx, infos, func(ctx context.Context, info *AddrInfo) (*Conn, error) {
		if err := connects(info.PortSpace, info.QPType); err != nil {
			return nil, &OpError{Op: opConnect, Local: info.SrcAddr, Remote: info.DstAddr, Err: err}
		}
		r, err := d.resolveActive(ctx, info)
		if err != nil {
			return nil, err
		}
		defer r.Close()
		return r.Connect(ctx, nil, d.Param)
	})
}

func (d *Dialer) resolveActive(ctx context.Context, info *AddrInfo) (*Resolved, error) {
	if info.Flags&AddrInfoPassive != 0 {
		return nil, &OpError{Op: opResolve, Local: info.SrcAddr, Err: errPassive}
	}
	return d.resolveInfo(ctx, info)
}

// firstOf tries infos in turn. When ctx has ended there is no use in the rest.
func firstOf[T any](ctx context.Context, infos []AddrInfo, try func(context.Context, *AddrInfo) (*T, error)) (*T, error) {
	cdev.NeedContext(ctx)
	var first error
	for i := range infos {
		t, err := try(ctx, &infos[i])
		if err == nil {
			return t, nil
		}
		if first == nil {
			first = err
		}
		if ctx.Err() != nil {
			break
		}
	}
	if first == nil {
		first = &OpError{Op: opResolve, Err: errNoInfo}
	}
	return nil, first
}

// ListenInfo is Listen for what LookupAddrInfo has found with AddrInfoPassive
// (rdma_create_ep(3), passive side, and rdma_listen(3)). The QP type of the
// AddrInfo goes before QP.Type. Listener.Accept is then rdma_get_request(3): the
// default QP of a request is made of QP when it is first wanted.
func (lc *ListenConfig) ListenInfo(info AddrInfo) (*Listener, error) {
	if info.Flags&AddrInfoPassive == 0 {
		return nil, &OpError{Op: opListen, Remote: info.DstAddr, Err: errActive}
	}
	return lc.listenInfo(&info)
}
