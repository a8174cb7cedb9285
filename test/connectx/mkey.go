// SPDX-License-Identifier: Apache-2.0

package connectx

import (
	"encoding/binary"

	"purerdma/test/connectx/prm"
)

// mkey is a memory key. It is a region, a window, or a key that a UMR has yet to set up.
type mkey struct {
	index   uint32
	context [64]byte // as last set by the driver or a UMR
	mode    uint64
	pages   []uint64 // mode MTT, DMA addresses with prm.MTTRead and prm.MTTWrite
	pieces  []klm    // modes KLM and KSM
}

// klm is a piece of another key.
type klm struct {
	n    uint64
	key  uint32
	addr uint64
}

// firstMkey is above small numbers and numbers with a special meaning.
const firstMkey = 0x1000

// maxTranslation is the maximum number of entries of a key's translation.
const maxTranslation = 1 << 21

var mkeyCommands = map[uint16]command{
	prm.OpCreateMkey:  {"CREATE_MKEY", 0x110, 16, createMkey},
	prm.OpDestroyMkey: {"DESTROY_MKEY", 16, 16, destroyMkey},
	prm.OpQueryMkey:   {"QUERY_MKEY", 16, 0x110, queryMkey},
	prm.OpQuerySpecialContexts: {"QUERY_SPECIAL_CONTEXTS", 16, 16, func(_ *Device, _, out []byte) error {
		prm.SpecialContextsOut.DumpFillMkey.Set(out, prm.DumpFillMkey)
		prm.SpecialContextsOut.ReservedLKey.Set(out, prm.ReservedLKey)
		if len(out) >= 20 {
			prm.SpecialContextsOut.NullMK.Set(out, prm.NullMkey)
		}
		return nil
	}},
}

func createMkey(d *Device, in, out []byte) (err error) {
	c := prm.CreateMkeyIn.Context.Of(in)
	d.checkReserved("CREATE_MKEY", &prm.MKC, c)
	m := &mkey{context: [64]byte(c), mode: prm.Mode(c)}
	entries := prm.CreateMkeyIn.TranslationOctwordsActual.Get(in)
	reserved := prm.MKC.TranslationOctwords.Get(c)
	switch {
	case prm.CreateMkeyIn.UMEMValid.Is(in):
		return refuse(prm.StatusBadParam, "keys of UMEMs are not there")
	case m.mode > prm.AccessKSM:
		return refuse(prm.StatusBadParam, "there is no access mode %d", m.mode)
	case prm.MKC.LogPageSize.Get(c) > 52:
		return refuse(prm.StatusBadParam, "a page of 2^%d bytes", prm.MKC.LogPageSize.Get(c))
	case reserved > maxTranslation/2, entries > reserved:
		return refuse(prm.StatusBadParam, "a translation of %d octowords, of which %d are given", reserved, entries)
	}
	if _, err := d.pds.find(uint32(prm.MKC.PD.Get(c))); err != nil {
		return err
	}
	list := prm.CreateMkeyIn.Translation.Of(in)
	if uint64(len(list)) < entries*prm.Octoword {
		return refuse(prm.StatusBadInputLength, "a translation of %d octowords in %d bytes", entries, len(list))
	}
	if !m.translate(d, 0, list[:entries*prm.Octoword]) {
		return refuse(prm.StatusBadParam, "a translation of %d octowords for a key of mode %d", entries, m.mode)
	}
	if !prm.CreateMkeyIn.PageAccess.Is(in) {
		for i := range m.pages {
			m.pages[i] |= prm.MTTRead | prm.MTTWrite
		}
	}
	if m.index, err = d.mkeys.add(m); err != nil {
		d.translations.used -= m.entries()
		return err
	}
	d.usePD(m, 1)
	prm.ObjectOut.Number.Set(out, uint64(m.index))
	return nil
}

// usePD adds n to the users of the key's PD, which a UMR can change.
func (d *Device) usePD(m *mkey, n users) {
	if p := d.pds.objects[m.pd()]; p != nil {
		p.users += n
	}
}

func destroyMkey(d *Device, in, _ []byte) error {
	m, err := d.mkeys.find(uint32(prm.ObjectIn.Number.Get(in)))
	if err != nil {
		return err
	}
	if n := d.windows(m); n > 0 {
		return refuse(prm.StatusResourceBusy, "key %#x is named by %d others", m.key(), n)
	}
	d.usePD(m, -1)
	d.translations.used -= m.entries()
	delete(d.mkeys.objects, m.index)
	return nil
}

// windows returns the number of pieces of keys that are bound to a key.
func (d *Device) windows(m *mkey) (n int) {
	for _, o := range d.mkeys.objects {
		if o.free() {
			continue
		}
		for _, p := range o.pieces {
			if p.n > 0 && p.key == m.key() {
				n++
			}
		}
	}
	return n
}

func queryMkey(d *Device, in, out []byte) error {
	m, err := d.mkeys.find(uint32(prm.ObjectIn.Number.Get(in)))
	if err != nil {
		return err
	}
	copy(prm.CreateMkeyIn.Context.Of(out), m.context[:])
	return nil
}

func (m *mkey) pd() uint32 { return uint32(prm.MKC.PD.Get(m.context[:])) }

// entries returns the number of entries of its translation.
func (m *mkey) entries() uint64 { return uint64(len(m.pages) + len(m.pieces)) }

func (m *mkey) free() bool  { return prm.MKC.Free.Is(m.context[:]) }
func (m *mkey) key() uint32 { return m.index<<8 | uint32(prm.MKC.Key.Get(m.context[:])) }

// translate stores translation entries of a command or a UMR from octoword at on. It returns
// whether the key can have them.
func (m *mkey) translate(d *Device, at uint64, list []byte) bool {
	n := uint64(len(list)) / prm.Octoword
	if n == 0 {
		return true
	}
	// The list of a UMR may be padded to 64 bytes, as in Linux.
	has := (prm.MKC.TranslationOctwords.Get(m.context[:]) + 3) &^ 3
	if m.mode == prm.AccessPA || at+n > maxTranslation/2 || at+n > has {
		return false
	}
	had := m.entries()
	need := max(had, at+n)
	if m.mode == prm.AccessMTT {
		need = max(had, 2*(at+n))
	}
	if d.translations.room(need-had) != nil {
		return false
	}
	d.translations.used += need - had
	be := binary.BigEndian
	switch m.mode {
	case prm.AccessMTT:
		m.pages = append(m.pages, make([]uint64, need-had)...)
		for i := range 2 * n {
			m.pages[2*at+i] = be.Uint64(list[8*i:])
		}
	case prm.AccessKLM, prm.AccessKSM:
		m.pieces = append(m.pieces, make([]klm, need-had)...)
		for i := range n {
			e := list[i*prm.Octoword:]
			m.pieces[at+i] = klm{prm.KLM.ByteCount.Get(e), uint32(prm.KLM.Key.Get(e)), prm.KLM.Address.Get(e)}
			if m.mode == prm.AccessKSM {
				m.pieces[at+i].n = 1 << prm.MKC.LogPageSize.Get(m.context[:])
			}
		}
	}
	return true
}
