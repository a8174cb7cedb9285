// SPDX-License-Identifier: Apache-2.0

package hwcheck

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"net/rpc"
	"sync"
	"sync/atomic"
	"time"

	"purerdma/cmd/internal/tool"
	"purerdma/uverbs"
	"purerdma/verbs"
	"purerdma/verbs/mlx5dv"
)

// Target is the device to check. Several checks may use it one after another.
type Target struct {
	Host   *verbs.Host
	Device string
	Port   uint8
	// Addr is an address of the port's network interface. The connection manager needs it, and it
	// chooses the GID. The zero Addr leaves the GID to the library.
	Addr netip.Addr
	// Peer is the TCP address of "rdmahw serve" on another host, or "" for the port itself.
	Peer string
	// Destructive permits a check of another host to set the network interface down.
	Destructive bool
	// Soak is the time that the check soak takes. 0 skips it.
	Soak time.Duration
	// Effort is the time in which a check with Load repeats its operations, until their number suffices for a card. Without it the
	// check repeats them less often, as a model or a driver in software needs.
	Effort time.Duration
	// Programs is the directory of this project's programs, which some checks run. "" means that there are none.
	Programs string
	// Files is the directory for the files of a check. "" means that it leaves none.
	Files string
	// Record records the operations of a ConnectX in Files. The library then takes slower paths, so a check that
	// fails without a recording may pass with it.
	Record bool

	far      *Target                         // of far ends in this process, or nil for this one
	setLink  func(up bool) error             // replaces the network interface in tests
	recorder atomic.Pointer[mlx5dv.Recorder] // of the near end
	saving   sync.Mutex
}

// iwarp reports whether only the connection manager connects QPs of the device.
func iwarp(dev *verbs.Device) bool { return dev.Transport() == verbs.TransportIWARP }

// kernel returns the kernel of the target's host.
func (t *Target) kernel() uverbs.Kernel {
	if t.Host.Kernel != nil {
		return t.Host.Kernel
	}
	return uverbs.System{}
}

// info returns the description of the target's device.
func (t *Target) info() (uverbs.DeviceInfo, error) {
	infos, err := t.Host.Devices()
	if err != nil {
		return uverbs.DeviceInfo{}, err
	}
	for _, info := range infos {
		if info.Name == t.Device {
			return info, nil
		}
	}
	return uverbs.DeviceInfo{}, fmt.Errorf("no RDMA device %s", t.Device)
}

// gid returns the GID of the port from which the checks send.
func (t *Target) gid(dev *verbs.Device) (verbs.GIDEntry, error) {
	if dev.LinkLayer(t.Port) != verbs.LinkEthernet {
		return dev.GID(t.Port, 0)
	}
	return dev.GIDFor(t.Port, t.Addr)
}

// connectPeer connects to the process of the far end, which may be this process.
func (t *Target) connectPeer(ctx context.Context) (*peer, error) {
	if t.Peer == "" {
		near, there := net.Pipe()
		far := t
		if t.far != nil {
			far = t.far
		}
		service := newService(ctx, far)
		go service.serve(there)
		return &peer{client: rpc.NewClient(near), local: service}, nil
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", t.Peer)
	if err != nil {
		return nil, err
	}
	return &peer{client: rpc.NewClient(conn)}, nil
}

// peer is the process of the far end.
type peer struct {
	client *rpc.Client
	local  *service // of this process, or nil
}

// close ends the connection to the far end, which closes its objects.
func (p *peer) close() error {
	err := p.client.Close()
	if p.local != nil {
		<-p.local.ended
	}
	return err
}

// call calls a method of the far end. The goroutine of the check ends if it fails.
func (t *trial) call(method string, args, reply any) {
	t.must("far end: "+method, t.peer.client.Call("Ends."+method, args, reply))
}

// Serve serves the far ends of checks of other hosts until ctx ends. Each connection has far ends of its
// own. They are closed when Serve returns. Serve continues while the process is out of descriptors or memory.
func Serve(ctx context.Context, ln net.Listener, target *Target) error {
	stop := context.AfterFunc(ctx, func() { ln.Close() })
	defer stop()
	var wg sync.WaitGroup
	defer wg.Wait()
	for {
		conn, err := tool.AcceptConn(ctx, ln, nil)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("accept a check: %w", err)
		}
		wg.Go(func() {
			defer context.AfterFunc(ctx, func() { conn.Close() })()
			newService(ctx, target).serve(conn)
		})
	}
}
