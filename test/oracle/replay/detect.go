// SPDX-License-Identifier: Apache-2.0

//go:build linux

package replay

import (
	"bytes"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"purerdma/abi"
	"purerdma/provider"
	"purerdma/test/oracle/vector"
)

// Detects checks that Run fails if the provider and the library differ in one bit. It changes results in the vectors, one in
// a record, and requires a difference at some of the changed records of each kind. except names the kinds that the
// driver's part does not compare.
func Detects(t *testing.T, d *Driver, except ...string) {
	const each = 4 // changes of a kind in a session
	all := files(t)
	name := all[len(all)-1] // of the newest library, from which a driver differs least
	f := read(t, d, name)
	found := map[string]bool{}
	for _, records := range f.Sessions {
		if long(records) {
			continue
		}
		changed, count := map[int]string{}, map[string]int{}
		s := &Session{TB: t, Head: f.Head, driver: d, file: filepath.Base(name), differed: map[int]bool{}}
		for _, rec := range records.Records {
			for _, b := range s.bits(rec) {
				if kind := rec.Type + " " + b.name; count[kind] < each {
					b.flip()
					count[kind]++
					changed[rec.Line] = kind
					break
				}
			}
		}
		s.run(records)
		for line, kind := range changed {
			found[kind] = found[kind] || s.differed[line]
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(found)) {
		if found[kind] == slices.Contains(except, kind) {
			t.Errorf("a changed bit of %q is detected = %t, want %t", kind, found[kind], !found[kind])
		}
	}
}

// bit is a bit of a result in a record.
type bit struct {
	name string
	flip func()
}

// bits returns one bit of each result that a record has.
func (s *Session) bits(rec *vector.Record) (all []bit) {
	add := func(name string, flip func()) { all = append(all, bit{name, flip}) }
	memory := func(name string, b []byte) {
		if len(b) > 0 {
			add(name, func() { b[len(b)-1] ^= 1 })
		}
	}
	number := func(name string, v *uint32) {
		if *v != 0 {
			add(name, func() { *v ^= 1 })
		}
	}
	count := func(name string, v *int) {
		if *v != 0 {
			add(name, func() { *v ^= 1 })
		}
	}
	// A decimal digit of the last bytes in the text of a list.
	list := func(name string, text []byte) {
		if i := bytes.LastIndexAny(text, "0123456789"); i >= 0 && text[0] == '[' {
			add(name, func() { text[i] ^= 1 })
		}
	}
	switch rec.Type {
	case "mr":
		number("lkey", &rec.LKey)
		number("rkey", &rec.RKey)
	case "qp", "dct":
		number("qpn", &rec.QPN)
	case "query_ece":
		number("options", &rec.Options)
	case "cq", "resize", "srq":
		count("got", &rec.Got)
		count("got_wr", &rec.GotWR)
		count("got_sge", &rec.GotSGE)
	}
	switch rec.Type {
	case "mr", "cq", "resize", "srq", "qp", "ah", "modify":
		for _, c := range rec.Kernel {
			s.inputBits(c, memory)
		}
	case "send", "bind", "recv", "reposted", "poll", "many", "arm":
		memory("wqe", rec.WQE)
		memory("record", rec.DBRecord)
		list("slots", rec.Slots)
		list("list", rec.List)
		number("db", &rec.DB)
		number("arm", &rec.Arm)
		number("ci", &rec.CI)
		count("bells", &rec.Bells)
		store := func(name string, stores []*vector.Store) {
			if n := len(stores); n > 0 {
				memory(name, stores[n-1].Bytes)
				add(name+" position", func() { stores[n-1].At ^= 8 })
			}
		}
		store("uar", rec.UAR)
		store("stores", rec.Stores)
		if rec.Mem != nil {
			memory("mem", rec.Mem.Bytes)
		}
		for _, w := range rec.WCs {
			numbers := map[string]*uint64{"id": w.ID, "status": w.Status, "vendor_err": w.VendorErr, "qpn": w.QPN}
			if w.Status == nil || *w.Status == uint64(provider.WCSuccess) { // otherwise DiffWC compares no more
				maps.Copy(numbers, map[string]*uint64{
					"opcode": w.Opcode, "byte_len": w.ByteLen, "src_qp": w.SrcQP, "flags": w.Flags, "imm": w.Imm, "inv": w.Inv,
					"ts": w.TS, "cvlan": w.CVLAN, "flow_tag": w.FlowTag,
				})
			}
			for _, name := range slices.Sorted(maps.Keys(numbers)) {
				if v := numbers[name]; v != nil {
					add("wcs "+name, func() { *v ^= 1 })
				}
			}
		}
	}
	return all
}

// inputBits calls f for the inputs of a command that creates or changes an object, if they may not differ.
func (s *Session) inputBits(c *vector.Call, f func(name string, b []byte)) {
	cmd := Command{Object: c.Object, Method: c.Method}
	if c.Write != nil {
		cmd.Write = *c.Write
	}
	if c.RC != 0 || c.Object == abi.MLX5_IB_OBJECT_UAR || isQuery(cmd) {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(c.In)) {
		id, err := strconv.ParseUint(name, 10, 16)
		s.Must(err)
		same := func(k Known) bool { return k.Command == cmd && k.Attr == uint16(id) }
		if !slices.ContainsFunc(known, same) && !slices.ContainsFunc(s.driver.Known, same) {
			f(fmt.Sprintf("kernel %s of %+v", name, cmd), c.In[name])
		}
	}
}
