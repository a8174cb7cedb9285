// SPDX-License-Identifier: Apache-2.0

package mlx5

import (
	"unsafe"

	"purerdma/abi"
	"purerdma/provider/internal/spin"
)

// A device that compresses writes one CQE, the title, for several completions that have most fields
// in common. The other entries of the group hold arrays of the differing fields, 8 bytes for each.
// The first array is in the entry behind the title. The next is in the entry of the ninth
// completion, and so on with each eighth (PRM, "Compressed CQE"). Only the title has an owner bit
// for all of them.
//
// libmlx5 leaves the decompression to its caller. Here, when the title is found, the arrays are
// overwritten by the entries that the device would have written without compression. No other code
// needs to handle compression.

// Offsets into the 8 bytes of a completion.
const (
	miniHash      = 0 // 32 bits, of a receive
	miniChecksum  = 0 // 16 bits, of a receive
	miniCounter   = 0 // 16 bits, of a request
	miniOpcode    = 2 // 8 bits, of a request
	miniByteCount = 4 // 32 bits

	miniPerArray = 8
)

// CompressionFormat selects the content of the 32 bits of a receive in a compressed CQE: enum
// mlx5_ib_cqe_comp_res_format of rdma/mlx5-abi.h.
type CompressionFormat uint8

// Formats of compressed CQEs.
const (
	CompressHash           CompressionFormat = abi.MLX5_IB_CQE_RES_FORMAT_HASH        // hash of the packet
	CompressChecksum       CompressionFormat = abi.MLX5_IB_CQE_RES_FORMAT_CSUM        // checksum of the packet
	CompressChecksumStride CompressionFormat = abi.MLX5_IB_CQE_RES_FORMAT_CSUM_STRIDX // checksum, and index of a stride. No queue of this package has strides
)

// compressed reports whether an entry with that last word is a title.
func compressed(last uint32) bool {
	return last>>4&15 <= cqeRespSendInv && last>>2&3 == formatCompressed
}

// fits reports whether entry ci can be the title of so many completions. None of them may overlap
// the unpolled entries before it.
func (c *CQ) fits(ci, count uint32) bool { return count >= 2 && count-1 <= c.mask-(ci-c.ci) }

// skip returns the number of ring entries to skip with entry ci. It is more than one for a title,
// because the arrays behind it are no entries. skip marks them invalid until the device writes them
// again. An array has no owner bit. The entries between two arrays still have the owner bit of the
// previous round, which equals the bit of the next round.
func (c *CQ) skip(ci uint32, e unsafe.Pointer) uint32 {
	count := load32(e, cqeByteCount)
	if c.compression == 0 || !compressed(lastWord(e)) || !c.fits(ci, count) {
		return 1
	}
	for i := ci + 1; i != ci+count; i++ {
		*(*uint8)(unsafe.Add(c.entry(i), cqeOpOwn)) = cqeInvalid << 4
	}
	return count
}

// skipEntry moves the consumer index on behind the oldest entry, which is e and invalid.
func (c *CQ) skipEntry(e unsafe.Pointer) {
	spin.StoreRelease(&c.ci, c.ci+c.skip(c.ci, e))
	c.publish()
}

// unpack decompresses entry ci if it is a title, and returns again then. It returns took
// for another entry, and fails as decompress does.
func (c *CQ) unpack(ci uint32, e unsafe.Pointer, last uint32) outcome {
	if !compressed(last) {
		return took
	}
	c.find(load32(e, cqeUIdx) & 0xffffff)
	return c.decompress(ci, e)
}

// decompress writes out the completions whose title is entry ci, of which the queue
// has been looked up.
func (c *CQ) decompress(ci uint32, e unsafe.Pointer) outcome {
	count := load32(e, cqeByteCount)
	title := *(*[cqeSize]byte)(e)
	request := title[cqeOpOwn]>>4 == cqeReq
	switch {
	case c.compression == 0:
		return c.fail(e, "compressed, of a CQ that is not")
	case !c.fits(ci, count):
		return c.fail(e, "title of an impossible number of completions")
	case !request && (c.qp == nil || c.qp.srq != nil):
		// Their receives do not lie in order, and the arrays do not name them.
		return c.fail(e, "compressed receives of an SRQ")
	}
	counter := load16(e, cqeLast)
	array := *(*[cqeSize]byte)(c.entry(ci + 1))
	for i := range count {
		if i > 0 && i%miniPerArray == 0 {
			array = *(*[cqeSize]byte)(c.entry(ci + i))
		}
		to, mini := c.entry(ci+i), unsafe.Pointer(&array[i%miniPerArray*(cqeSize/miniPerArray)])
		*(*[cqeSize]byte)(to) = title
		store32(to, cqeByteCount, load32(mini, miniByteCount))
		switch {
		case request:
			*(*uint8)(unsafe.Add(to, cqeOpQPN)) = load8(mini, miniOpcode)
			store16(to, cqeLast, load16(mini, miniCounter))
		case c.compression == CompressHash:
			store32(to, cqeHash, load32(mini, miniHash))
			store16(to, cqeLast, counter+uint16(i))
		default:
			store16(to, cqeChecksum, load16(mini, miniChecksum))
			store16(to, cqeLast, counter+uint16(i))
		}
		*(*uint8)(unsafe.Add(to, cqeOpOwn)) = title[cqeOpOwn]&0xf2 | uint8((ci+i)>>(c.log&31)&1)
	}
	return again
}
