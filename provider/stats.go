// SPDX-License-Identifier: Apache-2.0

package provider

// Count counts operations and their bytes.
type Count struct {
	Operations uint64
	Bytes      uint64
}

// Add counts one operation of n bytes.
func (c *Count) Add(n uint64) {
	c.Operations++
	c.Bytes += n
}

// SendCounts counts send requests by their SendOpcode. The first element is not used.
type SendCounts [OpAtomicWrite + 1]Count

// StatusCounts counts completions by their WCStatus.
type StatusCounts [WCGeneralErr + 1]uint64

// QPStats counts the requests of a QP since it was made. A reset of the QP does not change the
// counts.
type QPStats struct {
	// Sends counts the posted send requests. The bytes are the lengths of the SGList, the InlineData and
	// the Header. An atomic has 8 bytes for each element. Requests of a discarded batch do not
	// count.
	Sends SendCounts
	// Receives counts the receives that were posted to the QP's own queue.
	Receives uint64
	// Doorbells counts the notifications of the device or the kernel about new send requests.
	Doorbells uint64
}

// CQCounts counts the completions that were polled from a CQ.
type CQCounts struct {
	// Received counts the successful receives, and the bytes of their messages.
	Received    Count
	Completions StatusCounts
}

// QPCounter is a QP that counts its requests. The method is optional.
type QPCounter interface {
	// Stats returns the counts. It takes the locks of the queues, and so waits for a batch. For a
	// QP with QPConfig.Unlocked it takes no lock. Then the counts of a concurrent post may be
	// missing.
	Stats() QPStats
}

// CQCounter is a CQ that counts its completions. The method is optional.
type CQCounter interface {
	// Counts returns the counts. It takes the lock of the CQ, except with CQConfig.Unlocked. Then
	// the counts of a concurrent poll may be missing.
	Counts() CQCounts
}
