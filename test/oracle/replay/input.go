// SPDX-License-Identifier: Apache-2.0

//go:build linux

package replay

import (
	"bytes"
	"encoding/binary"
	"encoding/json"

	"purerdma/abi"
	"purerdma/test/oracle/vector"
)

// Known is an input of a command that differs from the oracle's input by intention, or has no effect.
type Known struct {
	Command  Command
	Attr     uint16
	From, To int // the bytes that differ, of the input behind the address of the response. All bytes if To is 0
}

// known lists the differences of all providers.
var known = []Known{
	// The user handle, which the kernel returns in events and which is an address in rdma-core.
	{Command: CreateCQ, Attr: abi.UVERBS_ATTR_CREATE_CQ_USER_HANDLE},
	{Command: CreateQP, Attr: abi.UVERBS_ATTR_CREATE_QP_USER_HANDLE},
	{Command: CreateSRQ, Attr: abi.UVERBS_ATTR_CREATE_SRQ_USER_HANDLE},
	// The event file that gets these events, which the tests do not have.
	{Command: CreateCQ, Attr: abi.UVERBS_ATTR_CREATE_CQ_EVENT_FD},
	{Command: CreateQP, Attr: abi.UVERBS_ATTR_CREATE_QP_EVENT_FD},
	{Command: CreateSRQ, Attr: abi.UVERBS_ATTR_CREATE_SRQ_EVENT_FD},
	// The address of the memory. The vectors contain its offset instead.
	{Command: RegMR, Attr: abi.UVERBS_ATTR_CORE_IN, To: 8},
	// The kernel ignores the user handle of an address handle. It is an address in rdma-core and 0 in purerdma.
	{Command: CreateAH, Attr: abi.UVERBS_ATTR_CORE_IN, To: 8},
}

// answer compares the input of a command, and lets the driver's part change the response. The device is opened before the
// second record, and objects are closed after the last one.
func (s *Session) answer(c *Call) {
	oracle := c.Oracle
	if s.Command != nil {
		s.Command(c)
	}
	if oracle == nil {
		return
	}
	for name, want := range oracle.In {
		var id uint16
		s.Must(json.Unmarshal([]byte(name), &id))
		got := c.Attrs[id]
		if c.Object == abi.UVERBS_OBJECT_DEVICE && id == abi.UVERBS_ATTR_CORE_IN {
			want, got = want[8:], got[8:] // skip the address of the response, which is an attribute
		}
		if !sameInput(want, s.intended(c.Command, id, want, got)) {
			s.Differ("command %+v, attribute %d: %s", c.Command, id, Diff(want, got))
		}
	}
	for id, got := range c.Attrs {
		if _, ok := vector.Attr(oracle.In, id); !ok && len(bytes.Trim(got, "\x00")) > 0 {
			s.Differ("command %+v: attribute %d, which the oracle does not give: %x", c.Command, id, got)
		}
	}
}

// intended returns got with the bytes of want where they may differ.
func (s *Session) intended(c Command, id uint16, want, got []byte) []byte {
	for _, list := range [][]Known{known, s.driver.Known} {
		for _, k := range list {
			switch {
			case k.Command != c || k.Attr != id:
			case k.To == 0:
				return want
			case k.To <= min(len(want), len(got)):
				got = bytes.Clone(got)
				copy(got[k.From:k.To], want[k.From:k.To])
			}
		}
	}
	return got
}

// address replaces an address in the vectors.
const address = 0xadd7e55000000000

// sameInput compares inputs. An address in the provider's input may differ from the oracle's address. A shorter input is
// extended with zeros.
func sameInput(want, got []byte) bool {
	n := (max(len(want), len(got)) + 7) &^ 7
	want, got = append(bytes.Clone(want), make([]byte, n-len(want))...), append(bytes.Clone(got), make([]byte, n-len(got))...)
	for i := 0; i < n; i += 8 {
		w, g := binary.NativeEndian.Uint64(want[i:]), binary.NativeEndian.Uint64(got[i:])
		if w != g && (w != address || g == 0 || g%8 != 0) {
			return false
		}
	}
	return true
}

// DriverInput returns the driver's input of the last command of a kind.
func DriverInput[T any](s *Session, c Command) *T {
	in := s.Kernel.Last(c).Attrs[abi.UVERBS_ATTR_UHW_IN]
	full := make([]byte, max(len(in), abi.Size[T]()))
	copy(full, in)
	return abi.View[T](full)
}
