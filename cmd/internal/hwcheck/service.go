// SPDX-License-Identifier: Apache-2.0

package hwcheck

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/rpc"
	"slices"
	"sync"
	"sync/atomic"

	"purerdma/cm"
	"purerdma/oob"
	"purerdma/verbs"
	"purerdma/verbs/mlx5dv"
)

// service is the process of far ends, for one check. Its methods that net/rpc calls are of Ends.
type service struct {
	ctx    context.Context
	target *Target
	ended  chan struct{} // closed when the objects are closed

	mu       sync.Mutex
	ends     []*farEnd
	recorded *verbs.Device // open while its operations are recorded
	recorder *mlx5dv.Recorder
	frames   *frameSocket
	raw      *frameReceiver
	silence  chan error // result of a Silence
}

// farEnd is an end with its listener for the connection manager.
type farEnd struct {
	end
	listener *cm.Listener
	accepted chan error
	sunk     chan error   // result of a running Sink
	messages atomic.Int64 // of the stream that Sink receives
	adder    adder        // of StartAdding
}

func newService(ctx context.Context, target *Target) *service {
	return &service{ctx: ctx, target: target, ended: make(chan struct{})}
}

// serve serves one connection until the check closes it, and then closes the ends.
func (s *service) serve(conn io.ReadWriteCloser) {
	defer close(s.ended)
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	s.ctx = ctx
	server := rpc.NewServer()
	if err := server.RegisterName("Ends", &Ends{s}); err != nil {
		panic(err) // the methods are wrong
	}
	server.ServeConn(endingConn{conn, cancel}) // waits for all calls
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range slices.Backward(s.ends) { // the first may be shared by others
		e.shut()
	}
	if s.recorded != nil {
		s.recorded.Close()
	}
	if s.frames != nil {
		s.frames.close()
	}
	if s.raw != nil {
		s.raw.close()
	}
	if s.silence != nil {
		<-s.silence // the network interface is up
	}
}

// endingConn is a connection that calls end when a read fails, because then the check has ended.
type endingConn struct {
	io.ReadWriteCloser
	end func()
}

func (c endingConn) Read(b []byte) (int, error) {
	n, err := c.ReadWriteCloser.Read(b)
	if err != nil {
		c.end()
	}
	return n, err
}

func (s *service) find(n int) (*farEnd, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n < 0 || n >= len(s.ends) {
		return nil, fmt.Errorf("no far end %d", n)
	}
	return s.ends[n], nil
}

// shut closes the end, which may be waiting for its connection.
func (e *farEnd) shut() error {
	var err error
	e.adder.stop() // it uses the memory
	if e.listener != nil {
		err = e.listener.Close()
		e.listener = nil
		<-e.accepted
	}
	return errors.Join(err, e.close())
}

// Ends holds the methods that a check calls. Package net/rpc needs the exported name.
type Ends struct{ s *service }

// Opened describes an opened end.
type Opened struct {
	End     int
	Address oob.Address
	MTU     verbs.MTU
	Listen  string // for the connection manager
}

// Open opens an end. An iWARP device listens.
func (x *Ends) Open(cfg Config, o *Opened) error {
	e := &farEnd{end: end{target: x.s.target, cfg: cfg}}
	if cfg.Share > 0 {
		other, err := x.s.find(cfg.Share - 1)
		if err != nil {
			return err
		}
		e.share = &other.end
	}
	err := e.start(x.s.ctx, o)
	if err != nil {
		return errors.Join(err, e.shut())
	}
	x.s.mu.Lock()
	defer x.s.mu.Unlock()
	o.End = len(x.s.ends)
	x.s.ends = append(x.s.ends, e)
	return nil
}

// JoinArgs are the arguments of Join.
type JoinArgs struct {
	End     int
	Address oob.Address
	MTU     verbs.MTU
}

// Joined describes a connected end.
type Joined struct {
	Memory verbs.RemoteMemory
	QPN    uint32
	SRQ    bool
}

// Join connects an end to the near end.
func (x *Ends) Join(a JoinArgs, j *Joined) error {
	e, err := x.s.find(a.End)
	if err != nil {
		return err
	}
	if e.accepted != nil {
		err = <-e.accepted
		e.accepted <- err // for shut
	} else {
		err = e.join(a.Address, a.MTU)
	}
	if err != nil {
		return err
	}
	*j = Joined{Memory: e.mr.Remote(), QPN: e.qp.Num(), SRQ: e.srq != nil}
	return nil
}

// RecvArgs are the arguments of Recv.
type RecvArgs struct {
	End    int
	ID     uint64
	Pieces []piece
	Key    uint32 // changes the keys of the elements
}

// Recv posts a receive.
func (x *Ends) Recv(a RecvArgs, _ *struct{}) error {
	e, err := x.s.find(a.End)
	if err != nil {
		return err
	}
	if a.Key == 0 {
		return e.recv(a.ID, a.Pieces)
	}
	elements := e.elements(a.Pieces)
	for i := range elements {
		elements[i].LKey ^= a.Key
	}
	_, err = e.qp.PostRecv([]verbs.RecvWR{{ID: a.ID, SGList: elements}})
	return err
}

// WaitArgs are the arguments of Wait.
type WaitArgs struct {
	End  int
	Send bool
	N    int
}

// Wait waits for completions of sends or receives.
func (x *Ends) Wait(a WaitArgs, wcs *[]verbs.WC) error {
	e, err := x.s.find(a.End)
	if err != nil {
		return err
	}
	cq := e.recvCQ
	if a.Send {
		cq = e.sendCQ
	}
	*wcs, err = wait(x.s.ctx, cq, a.N)
	return err
}

// MemoryArgs are the arguments of Load and Store.
type MemoryArgs struct {
	End, Off, Len int
	Data          []byte
}

// Load returns bytes of an end's memory.
func (x *Ends) Load(a MemoryArgs, data *[]byte) error {
	b, err := x.memory(a.End, a.Off, a.Len)
	*data = b
	return err
}

// Store changes bytes of an end's memory.
func (x *Ends) Store(a MemoryArgs, _ *struct{}) error {
	b, err := x.memory(a.End, a.Off, len(a.Data))
	copy(b, a.Data)
	return err
}

func (x *Ends) memory(n, off, size int) ([]byte, error) {
	e, err := x.s.find(n)
	if err != nil {
		return nil, err
	}
	if off < 0 || size < 0 || off > e.mr.Len()-size {
		return nil, fmt.Errorf("no memory at %d, %d bytes", off, size)
	}
	return e.mr.Bytes()[off:][:size], nil
}

// PostArgs are the arguments of Post, a SEND or a WRITE.
type PostArgs struct {
	End, Off, Len int
	WR            PlainWR
}

// PlainWR has the fields of verbs.SendWR that a far end needs.
type PlainWR struct {
	ID         uint64
	Opcode     verbs.SendOpcode
	Flags      verbs.SendFlags
	ImmData    uint32
	RemoteAddr uint64
	RKey       uint32
	Invalidate uint32
	CompareAdd uint64
}

// Post posts a send of the end's memory.
func (x *Ends) Post(a PostArgs, _ *struct{}) error {
	e, err := x.s.find(a.End)
	if err != nil {
		return err
	}
	wr := verbs.SendWR{
		ID: a.WR.ID, Opcode: a.WR.Opcode, Flags: a.WR.Flags, ImmData: a.WR.ImmData, RemoteAddr: a.WR.RemoteAddr, RKey: a.WR.RKey,
		InvalidateRKey: a.WR.Invalidate, CompareAdd: a.WR.CompareAdd,
	}
	if a.Len > 0 {
		wr.SGList = e.elements([]piece{{a.Off, a.Len}})
	}
	if e.ah != nil {
		wr.AH, wr.RemoteQPN, wr.RemoteQKey = e.ah, e.remote.QPN, e.path.RemoteQKey()
	}
	_, err = e.qp.PostSend([]verbs.SendWR{wr})
	return err
}

// Skipped returns the number of invalid completions of the far ends' CQs.
func (x *Ends) Skipped(_ struct{}, n *uint64) error {
	x.s.mu.Lock()
	defer x.s.mu.Unlock()
	*n = skipped(func(yield func(*end) bool) {
		for _, e := range x.s.ends {
			if !yield(&e.end) {
				return
			}
		}
	})
	return nil
}

// Fail moves the QP of an end to the error state, like a peer whose program has died.
func (x *Ends) Fail(n int, _ *struct{}) error {
	e, err := x.s.find(n)
	if err != nil {
		return err
	}
	return e.qp.Modify(&verbs.QPAttr{State: verbs.QPErr}, verbs.QPAttrState)
}

// State returns the state of the QP of an end.
func (x *Ends) State(n int, state *verbs.QPState) error {
	e, err := x.s.find(n)
	if err != nil {
		return err
	}
	attr, err := e.qp.Query()
	if err == nil {
		*state = attr.State
	}
	return err
}

// Close closes an end.
func (x *Ends) Close(n int, _ *struct{}) error {
	e, err := x.s.find(n)
	if err != nil {
		return err
	}
	return e.shut()
}
