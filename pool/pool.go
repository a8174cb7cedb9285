// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"net"
	"os"
	"sync"
	"syscall"

	"purerdma/internal/bridge"
	"purerdma/internal/mem"
	"purerdma/verbs"
)

// internals has the functions that package verbs does not export.
var counting = bridge.CountingFunctions.(*bridge.Counting[*verbs.Host, *verbs.QP, *verbs.PD])

var internals = bridge.PoolFunctions.(*bridge.Pool[*verbs.PD, *verbs.MR, verbs.Access])

// Defaults of Config.
const (
	DefaultMaxBytes = 64 << 20
	DefaultSlabSize = 2 << 20
)

// Config configures a Pool. The zero value is the default.
type Config struct {
	// MaxBytes bounds the registered memory in bytes. 0 is DefaultMaxBytes. New rounds it down to
	// whole pages.
	MaxBytes int

	// SlabSize is the size of a memory region in bytes. 0 is DefaultSlabSize, or less if MaxBytes
	// is less. New rounds it up to a power of two, and to a page. A request for more bytes has a
	// memory region of its own.
	SlabSize int

	// Access lists the rights to the memory. 0 is verbs.LocalWrite.
	//
	// With remote rights, Buf.Remote returns a key for peers. That key opens the whole slab, which
	// also holds the Bufs of other users, now and later. The key stays valid after Free, until the pool
	// deregisters the slab. Every peer with a connection to a QP of the PD can use it, and keys can
	// be guessed. So use such a pool only for peers that may read and write all of its memory, and
	// give it a PD of its own. For other peers, register memory for each of them, or bind a memory
	// window of type 2.
	Access verbs.Access
}

// ErrExhausted reports that TryGet would have to wait.
var ErrExhausted = errors.New("no free memory in the pool")

// Stats describes the use of a Pool.
type Stats struct {
	Registered int // bytes of memory regions
	InUse      int // bytes of Bufs, rounded up to their size classes
	Waiting    int // waiting calls of Get
	// The following fields count since the pool was made.
	Gets          uint64 // Bufs that were handed out
	Waits         uint64 // calls of Get that waited
	Registrations uint64 // memory regions that were registered
}

// Pool is registered memory of a PD, from which Get takes pieces. Its methods may be called
// concurrently.
type Pool struct {
	pd       *verbs.PD
	access   verbs.Access
	max      int // bytes
	slabSize int // bytes. 0: the pool has no more than its first slab
	node     int // NUMA node of the memory, or -1
	whole    int // requests for more units than this take a whole slab
	debug    bool

	uncount func() // ends the counting for the Host

	closing sync.Mutex // serializes Close

	mu            sync.Mutex // guards the following fields
	cache         []*Buf     // freed blocks that are not merged, by class. Empty if a Get waits
	cached        int        // blocks in cache
	slabs         []*slab
	spare         *Buf // Bufs without a block
	registered    int  // bytes, including slabs that are being registered
	inUse         int
	gets          uint64
	waits         uint64
	registrations uint64
	waiters       waitQueue
	growing       int // slabs that are being registered
	closed        bool
	freed         []*slab           // idle slabs of the closed pool, for the goroutine of deregisterLater
	ended         chan struct{}     // closed when that goroutine ends. Nil if none runs
	live          map[*Buf]struct{} // handed out. Debug mode only
}

// hugePage returns the size of a huge page, 0 if there are none.
var hugePage = sync.OnceValue(mem.HugePage)

// New returns a pool of a PD. It registers memory when it is first needed. The caller closes the
// pool. Closing the PD first is allowed. The PD then ends with the pool's last memory region.
func New(pd *verbs.PD, cfg Config) (*Pool, error) { return newPool(pd, cfg, debugMode()) }

func newPool(pd *verbs.PD, cfg Config, debug bool) (*Pool, error) {
	dev := pd.Device().Name()
	size, slabSize, err := cfg.sizes(os.Getpagesize())
	if err != nil {
		return nil, &verbs.OpError{Op: "create pool on", Object: dev, Err: err}
	}
	p := &Pool{pd: pd, access: cfg.Access, max: size, slabSize: slabSize, node: nodeOf(sysClass, dev)}
	p.init(slabSize/unit, debug)
	p.uncount = counting.PD(pd, "pool", p.count)
	return p, nil
}

// NewDMABuf returns a pool over length bytes from offset on of a dma-buf, which is memory of another
// device (PD.RegDMABuf of package verbs). It registers the memory at once, in one memory region. fd
// stays the caller's and may be closed afterwards. length is a multiple of 64. cfg.MaxBytes and
// cfg.SlabSize must be 0. Bytes of the Bufs returns nil, and their addresses in work requests are
// the offsets in the dma-buf.
func NewDMABuf(pd *verbs.PD, fd int, offset, length uint64, cfg Config) (*Pool, error) {
	return newDMABuf(pd, fd, offset, length, cfg, debugMode())
}

func newDMABuf(pd *verbs.PD, fd int, offset, length uint64, cfg Config, debug bool) (*Pool, error) {
	fail := func(format string, args ...any) (*Pool, error) {
		return nil, &verbs.OpError{Op: "create pool on", Object: pd.Device().Name(), Err: fmt.Errorf(format, args...)}
	}
	switch {
	case cfg.MaxBytes != 0 || cfg.SlabSize != 0:
		return fail("MaxBytes or SlabSize for a dma-buf: %w", syscall.EINVAL)
	case length == 0 || length > math.MaxInt || length%unit != 0:
		return fail("length %d of a dma-buf is no multiple of %d: %w", length, unit, syscall.EINVAL)
	}
	p := &Pool{pd: pd, access: cfg.Access, max: int(length), node: -1}
	p.init(1<<(bits.Len(uint(length/unit))-1), debug)
	mr, err := pd.RegDMABuf(fd, offset, length, offset, p.access)
	if err != nil {
		return fail("%w", err)
	}
	p.slabs = []*slab{newSlab(mr, true, debug)}
	p.registrations = 1
	p.registered = p.max
	p.uncount = counting.PD(pd, "pool", p.count)
	return p, nil
}

// init sets the fields that depend on the largest block of a divided slab, in units.
func (p *Pool) init(largest int, debug bool) {
	if p.access == 0 {
		p.access = verbs.LocalWrite
	}
	p.whole = largest
	p.cache = make([]*Buf, classOf(largest)+1)
	if debug {
		p.debug, p.live = true, map[*Buf]struct{}{}
	}
}

// sizes returns the bound of the pool and the size of a slab.
func (c Config) sizes(page int) (size, slabSize int, err error) {
	size, slabSize = c.MaxBytes, c.SlabSize
	if size == 0 {
		size = DefaultMaxBytes
	}
	if size < page || slabSize < 0 {
		return 0, 0, fmt.Errorf("MaxBytes %d, SlabSize %d: %w", c.MaxBytes, c.SlabSize, syscall.EINVAL)
	}
	size &^= page - 1
	if slabSize == 0 {
		for slabSize = DefaultSlabSize; slabSize > size; {
			slabSize /= 2
		}
		return size, slabSize, nil
	}
	if slabSize <= size {
		slabSize = 1 << bits.Len(uint(max(slabSize, page)-1)) // negative if it overflows
	}
	if slabSize < page || slabSize > size {
		return 0, 0, fmt.Errorf("SlabSize %d, MaxBytes %d: %w", c.SlabSize, c.MaxBytes, syscall.EINVAL)
	}
	return size, slabSize, nil
}

// PD returns the protection domain.
func (p *Pool) PD() *verbs.PD { return p.pd }

// Stats returns the use of the pool.
func (p *Pool) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	return Stats{Registered: p.registered, InUse: p.inUse, Waiting: p.waiters.n, Gets: p.gets, Waits: p.waits, Registrations: p.registrations}
}

// count adds the counts of the pool to the sums of the Host.
func (p *Pool) count(c *bridge.Counts) {
	s := p.Stats()
	c.Count("Gets", s.Gets)
	c.Count("Waits", s.Waits)
	c.Count("Registrations", s.Registrations)
	c.Level("Registered", uint64(s.Registered))
	c.Level("InUse", uint64(s.InUse))
	c.Level("Waiting", uint64(s.Waiting))
}

func (p *Pool) errClosed() error { return p.opError(net.ErrClosed) }

// opError returns the error of a Get.
func (p *Pool) opError(err error) error {
	return &verbs.OpError{Op: "get pool memory on", Object: p.pd.Device().Name(), Err: err}
}
