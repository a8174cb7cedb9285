// SPDX-License-Identifier: Apache-2.0

//go:build linux

package replay

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"testing"

	"purerdma/abi"
	"purerdma/internal/mem"
	"purerdma/provider"
	"purerdma/test/oracle/vector"
	"purerdma/uverbs"
)

// Session is one replay of the records of an open device. The driver's part embeds it.
type Session struct {
	testing.TB
	Head    *vector.Record // of the file
	Env     map[string]string
	Kernel  *Kernel
	Context provider.Context
	Data    *mem.Region // represents the vectors' data
	PD      provider.PD
	AHs     map[string]AH
	Rec     *vector.Record // being replayed
	// Command, if not nil, is called for each command before the response. It may change the response.
	Command func(*Call)

	driver   *Driver
	file     string
	batch    bool
	windows  map[uint32]provider.MWType // by key
	opened   []io.Closer                // in the order of creation
	reports  int
	differed map[int]bool // by line. If not nil, differences are not reported
}

// AH is an address handle, as the provider needs it in requests.
type AH struct{ ah provider.AH }

// ProviderAH returns the provider's object.
func (a AH) ProviderAH() provider.AH { return a.ah }

// maxReports is the maximum number of differences of a session that are reported. The rest is then not replayed.
const maxReports = 20

// run replays a session.
func (s *Session) run(records *vector.Session) {
	s.Rec, s.Env = records.Records[0], records.Records[0].Env
	s.AHs, s.windows = map[string]AH{}, map[uint32]provider.MWType{}
	_, version := s.driver.ABIVersions()
	s.Kernel = NewKernel(records, s.driver.ID(), s.driver.Name+"_0", version)
	s.Kernel.Answer = s.answer
	for oracle, provider := range s.driver.Equal {
		s.Kernel.equate(oracle, provider)
	}
	next := s.driver.Start(s)
	var err error
	s.Data, err = mem.Alloc(vector.DataLen)
	s.Must(err)
	defer s.Data.Free()
	f, err := uverbs.Open(s.Kernel, s.Kernel.Device())
	s.Must(err)
	s.Context, err = s.driver.Open(f)
	s.Must(err)
	for _, s.Rec = range records.Records[1:] {
		s.replay(next)
	}
	for i := len(s.opened) - 1; i >= 0; i-- {
		s.Must(s.opened[i].Close())
	}
	s.Must(f.Close())
	if c, ok := s.Context.(io.Closer); ok {
		s.Must(c.Close())
	}
	for c, n := range s.Kernel.Missing() {
		s.Errorf("%s: %d commands %+v, want %d", s.file, n[1], c, n[0])
	}
}

// Must ends the test if err is not nil.
func (s *Session) Must(err error) {
	s.Helper()
	if err != nil {
		s.Fatalf("%s:%d: %v", s.file, s.Rec.Line, err)
	}
}

// Differ reports a difference from the oracle.
func (s *Session) Differ(format string, args ...any) {
	s.Helper()
	if s.differed != nil {
		s.differed[s.Rec.Line] = true
		return
	}
	s.Errorf("%s:%d %s %q: %s", s.file, s.Rec.Line, s.Rec.Type, s.Rec.Name, fmt.Sprintf(format, args...))
	if s.reports++; s.reports >= maxReports {
		s.Fatalf("%d differences up to line %d, so the rest is not replayed", s.reports, s.Rec.Line)
	}
}

// Same compares bytes.
func (s *Session) Same(what string, want, got []byte) {
	s.Helper()
	if string(want) != string(got) {
		s.Differ("%s %s", what, Diff(want, got))
	}
}

// Refused reports whether a call has failed. The result must agree with the oracle's.
func (s *Session) Refused(err error) bool {
	s.Helper()
	if (err == nil) != (s.Rec.RC == 0) {
		s.Differ("%v, want errno %d: %+v", err, s.Rec.RC, s.Rec.Cap)
	}
	return err != nil
}

// Opened keeps an object until the end of the session. Objects are closed in the opposite order of their creation.
func (s *Session) Opened(c io.Closer) { s.opened = append(s.opened, c) }

// replay replays a record. next replays the types that differ between drivers.
func (s *Session) replay(next func()) {
	rec := s.Rec
	switch rec.Type {
	case "pd":
		if s.PD != nil {
			s.Fatalf("%s:%d: a second PD cannot be replayed", s.file, rec.Line)
		}
		var err error
		s.PD, err = s.Context.AllocPD()
		s.Must(err)
		s.Opened(s.PD)
	case "mr":
		cfg := &provider.MRConfig{PD: s.PD, Mem: s.Data.Bytes(), IOVA: rec.Addr, Access: provider.Access(rec.Access)}
		if s.driver.NoIOVA {
			p := abi.NewSlicePointer(s.Data.Bytes())
			cfg.IOVA = binary.NativeEndian.Uint64(abi.Bytes(&p))
		}
		m, err := s.Context.RegMR(cfg)
		s.Must(err)
		if m.LKey() != rec.LKey || m.RKey() != rec.RKey {
			s.Differ("keys %#x, %#x, want %#x, %#x", m.LKey(), m.RKey(), rec.LKey, rec.RKey)
		}
		s.Opened(m)
	case "mw":
		var typ provider.MWType
		s.Must(json.Unmarshal(rec.Kind, &typ))
		m, err := s.Context.AllocMW(s.PD, typ)
		s.Must(err)
		s.windows[m.RKey()] = typ
		s.Opened(m)
	case "ah":
		a := provider.AHAttr{
			Global: rec.Global != 0, DLID: rec.DLID, SL: rec.SL, SrcPathBits: rec.PathBits, StaticRate: rec.Rate, Port: rec.Port,
			GRH: provider.GlobalRoute{FlowLabel: rec.Flow, SGIDIndex: rec.SGID, HopLimit: rec.Hop, TrafficClass: rec.TClass},
		}
		copy(a.GRH.DGID[:], rec.DGID)
		p, err := s.Context.CreateAH(&provider.AHConfig{PD: s.PD, Attr: a})
		if s.Refused(err) {
			return
		}
		s.AHs[rec.ID] = AH{p}
		s.Opened(p)
	default:
		next()
	}
}

// Unknown ends the test at a record that the driver's part cannot replay.
func (s *Session) Unknown() {
	s.Helper()
	s.Fatalf("%s:%d: unknown record %q", s.file, s.Rec.Line, s.Rec.Type)
}

// Modify moves a QP.
func (s *Session) Modify(q provider.QP) {
	s.Helper()
	s.Refused(q.Modify(s.qpAttr()))
}

// qpAttr returns the record's attributes of a QP. The vectors do not have the port and the Q_Key, which are constants of the dumper.
func (s *Session) qpAttr() (*provider.QPAttr, provider.QPAttrMask) {
	attr, mask := &provider.QPAttr{State: States[s.Rec.State]}, provider.QPAttrMask(s.Rec.Mask)
	if mask&provider.QPAttrPort != 0 {
		attr.Port = 1
	}
	if mask&provider.QPAttrQKey != 0 {
		attr.QKey = 0x11111111
	}
	if mask&provider.QPAttrPathMTU != 0 {
		attr.PathMTU = provider.MTU(s.Rec.MTU)
	}
	if mask&provider.QPAttrSQPSN != 0 {
		attr.SQPSN = s.Rec.PSN
	}
	return attr, mask
}
