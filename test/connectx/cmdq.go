// SPDX-License-Identifier: Apache-2.0

package connectx

import (
	"fmt"

	"purerdma/test/connectx/prm"
	"purerdma/test/pci"
)

// commandQueue is the queue of the driver's firmware commands. It is a page of entries, and the
// doorbell has a bit for each entry.
type commandQueue struct {
	addr uint64
}

const (
	logCommands      = 5 // entries
	logCommandStride = 6 // bytes between them
	minCommand       = 8 // common header of every command and answer
)

// doorbell executes the commands whose bits are set, in the order of the entries.
func (f *Function) doorbell(vector uint32) {
	for i := range uint32(1) << logCommands {
		if vector>>i&1 != 0 {
			f.command(int(i))
		}
	}
}

// deliveryError reports a command that does not reach the firmware.
type deliveryError struct {
	status prm.Delivery
	text   string
}

func (e *deliveryError) Error() string {
	return fmt.Sprintf("%s: delivery status %#x", e.text, e.status)
}

// undelivered returns a deliveryError.
func undelivered(status prm.Delivery, format string, args ...any) *deliveryError {
	return &deliveryError{status, fmt.Sprintf(format, args...)}
}

// command executes the command of an entry.
func (f *Function) command(i int) {
	object := fmt.Sprintf("command queue entry %d", i)
	entry := f.d.mem.Bytes(f.cmdq.addr+uint64(i)<<logCommandStride, prm.CommandEntrySize)
	switch {
	case entry == nil || !pci.Aligned(entry):
		f.d.violation(object, "the driver has no memory there")
		return
	case !prm.CommandEntry.Own.Is(entry):
		f.d.violation(object, "a doorbell, but the entry is not the device's")
		return
	}
	var e [prm.CommandEntrySize]byte // later changes by the driver have no effect
	copy(e[:], entry)
	events := f.d.subscribed(prm.EventCommand)
	err := f.deliver(&e)
	status := prm.DeliveryOK
	if err != nil {
		f.d.violation(object, "%v", err)
		status = err.status
	}
	prm.CommandEntry.Status.Set(e[:], uint64(status))
	prm.CommandEntry.Own.Set(e[:], 0)
	copy(prm.CommandEntry.Out.Of(entry), prm.CommandEntry.Out.Of(e[:]))
	pci.StoreWord(entry[prm.CommandEntrySize-4:], [4]byte(e[prm.CommandEntrySize-4:]))
	// The creator or destroyer of the queue for these events waits without an event.
	if events && f.d.subscribed(prm.EventCommand) {
		f.d.event(prm.EventCommand, 0, func(data []byte) { prm.EventVector.Set(data, 1<<i) })
	}
}

// deliver executes the command of an entry with the firmware, and writes the start of the
// answer to the entry.
func (f *Function) deliver(e *[prm.CommandEntrySize]byte) *deliveryError {
	c := &prm.CommandEntry
	token := c.Token.Get(e[:])
	inLen, outLen := c.InLength.Get(e[:]), c.OutLength.Get(e[:])
	switch {
	case c.Type.Get(e[:]) != prm.CommandEntryType:
		return undelivered(prm.DeliveryEntry, "type %d", c.Type.Get(e[:]))
	case inLen < minCommand || inLen > MaxCommand:
		return undelivered(prm.DeliveryInLength, "an input of %d bytes", inLen)
	case outLen < minCommand || outLen > MaxCommand:
		return undelivered(prm.DeliveryOutLength, "an output of %d bytes", outLen)
	}
	// Some commands use less than the bytes in the entry.
	in := append(make([]byte, 0, max(inLen, prm.HeaderLen)), c.In.Of(e[:])...)
	boxes, err := f.mailboxes(c.InMailbox.Get(e[:]), int(inLen), token, prm.DeliveryInPtr)
	if err != nil {
		return err
	}
	for _, b := range boxes {
		in = append(in, prm.Mailbox.Data.Of(b)[:min(512, int(inLen)-len(in))]...)
	}
	// Get the mailboxes of the answer while an error can still be returned.
	if boxes, err = f.mailboxes(c.OutMailbox.Get(e[:]), int(outLen), token, prm.DeliveryOutPtr); err != nil {
		return err
	}
	out := f.d.exec(in, int(max(outLen, prm.HeaderLen)))
	copy(c.Out.Of(e[:]), out)
	for i, b := range boxes {
		data := prm.Mailbox.Data.Of(b)
		clear(data)
		copy(data, out[min(16+512*i, len(out)):])
	}
	return nil
}

// mailboxes returns the blocks for the part of a command of n bytes that exceeds the first 16
// bytes.
func (f *Function) mailboxes(addr uint64, n int, token uint64, bad prm.Delivery) ([][]byte, *deliveryError) {
	var boxes [][]byte
	for i := 0; 16+512*i < n; i++ {
		b := f.d.mem.Bytes(addr, prm.MailboxSize)
		switch {
		case b == nil:
			return nil, undelivered(bad, "the driver has no memory at %#x, for mailbox %d", addr, i)
		case prm.Mailbox.Token.Get(b) != token:
			return nil, undelivered(prm.DeliveryToken, "mailbox %d has token %#x, the entry %#x", i, prm.Mailbox.Token.Get(b), token)
		case prm.Mailbox.Block.Get(b) != uint64(i):
			return nil, undelivered(prm.DeliveryBlock, "mailbox %d says that it is number %d", i, prm.Mailbox.Block.Get(b))
		}
		boxes = append(boxes, b)
		addr = prm.Mailbox.Next.Get(b)
	}
	return boxes, nil
}
