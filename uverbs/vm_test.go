// SPDX-License-Identifier: Apache-2.0

//go:build linux

package uverbs

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"purerdma/internal/vmtest"
)

func TestMain(m *testing.M) {
	flag.Parse()
	if flag.Lookup("test.fuzz").Value.String() != "" {
		os.Exit(m.Run()) // the fuzzer leaves things open
	}
	vmtest.Main(m)
}

// refusal is what a call ends with on all kernels, or on the newer ones.
type refusal struct {
	all  error
	from string // the first kernel series that answers newer, "" for none
	new  error
}

func (r refusal) on(series string) error {
	if r.from != "" && !older(series, r.from) {
		return r.new
	}
	return r.all
}

// older compares two series, as "6.1" and "7.2".
func older(a, b string) bool {
	var ma, na, mb, nb int
	fmt.Sscanf(a, "%d.%d", &ma, &na)
	fmt.Sscanf(b, "%d.%d", &mb, &nb)
	return ma < mb || ma == mb && na < nb
}

// refusals is what the kernel answers to the calls that rxe does not carry out.
// All others succeed.
var refusals = map[string]refusal{
	"AdviseMR":                 {all: errors.ErrUnsupported, from: "7.0"},
	"RegMRMethod":              {all: errors.ErrUnsupported, from: "7.0"},
	"RegDMABufMR":              {all: errors.ErrUnsupported},
	"AllocDM":                  {all: errors.ErrUnsupported},
	"RegDMMR":                  {all: errors.ErrUnsupported},
	"FreeDM":                   {all: errors.ErrUnsupported},
	"AllocDMAH":                {all: errors.ErrUnsupported},
	"FreeDMAH":                 {all: errors.ErrUnsupported},
	"AllocDMABuf":              {all: errors.ErrUnsupported},
	"CreateCQ with flags":      {all: errors.ErrUnsupported},
	"PollCQ":                   {all: errors.ErrUnsupported},
	"ModifyCQ":                 {all: errors.ErrUnsupported},
	"PostSRQRecv":              {all: errors.ErrUnsupported},
	"CreateSRQ of type TM":     {all: errors.ErrUnsupported},
	"CreateQP with a source":   {all: errors.ErrUnsupported},
	"CreateQP of type XRC_INI": {all: errors.ErrUnsupported},
	"OpenQP":                   {all: errors.ErrUnsupported},
	"PostRecv":                 {all: errors.ErrUnsupported},
	"CreateWQ":                 {all: errors.ErrUnsupported},
	"ModifyWQ":                 {all: errors.ErrUnsupported},
	"CreateRWQIndTable":        {all: errors.ErrUnsupported},
	"DestroyRWQIndTable":       {all: errors.ErrUnsupported},
	"DestroyWQ":                {all: errors.ErrUnsupported},
	"OpenXRCD":                 {all: errors.ErrUnsupported},
	"CloseXRCD":                {all: errors.ErrUnsupported},
	"CreateFlow":               {all: errors.ErrUnsupported},
	"DestroyFlow":              {all: errors.ErrUnsupported},
	"CreateFlowActionESP":      {all: errors.ErrUnsupported},
	"ModifyFlowActionESP":      {all: errors.ErrUnsupported},
	"DestroyFlowAction":        {all: errors.ErrUnsupported},
	"CreateCounters":           {all: errors.ErrUnsupported},
	"ReadCounters":             {all: errors.ErrUnsupported},
	"DestroyCounters":          {all: errors.ErrUnsupported},
	"QueryCompCntrCaps":        {all: errors.ErrUnsupported},
	"CreateCompCntr":           {all: errors.ErrUnsupported},
	"ModifyCompCntr":           {all: errors.ErrUnsupported},
	"ReadCompCntr":             {all: errors.ErrUnsupported},
	"AttachCompCntr":           {all: errors.ErrUnsupported},
	"DestroyCompCntr":          {all: errors.ErrUnsupported},
	"QueryContext":             {all: errors.ErrUnsupported},
	"QueryPortSpeed":           {all: errors.ErrUnsupported},
	"ReregMR":                  {all: errors.ErrUnsupported, from: "7.0"},
	"CreateSRQ of type XRC":    {all: syscall.EINVAL},         // there is no such object
	"CreateQP of type XRC_TGT": {all: syscall.EINVAL},         // there is no such object
	"CreateQP with a table":    {all: syscall.EINVAL},         // there is no such object
	"AsyncChannel.Next":        {all: os.ErrDeadlineExceeded}, // nothing happens
}

// TestKernelAnswers gives every command to the kernel.
func TestKernelAnswers(t *testing.T) {
	host := vmtest.Hosts(t, 1)[0]
	infos, err := System{}.Devices()
	if err != nil {
		t.Fatal(err)
	}
	var f *File
	for _, info := range infos {
		if info.Name == host.Device {
			if f, err = Open(System{}, info); err != nil {
				t.Fatal(err)
			}
		}
	}
	defer f.Close()
	mem, err := syscall.Mmap(-1, 0, 4096, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Munmap(mem)
	o := &objects{mem: mem}
	defer o.close()
	release := os.Getenv("RDMAVM_KERNEL_RELEASE")
	for _, c := range calls() {
		err := c.run(f, o)
		want := refusals[c.name].on(release)
		t.Logf("%-28s %v", c.name, err)
		if !errors.Is(err, want) {
			t.Errorf("%s on Linux %s: %v, want %v", c.name, release, err, want)
		}
		if errors.Is(want, errors.ErrUnsupported) && err != nil && !strings.Contains(err.Error(), "is not supported") {
			t.Errorf("%s: %v does not say what is not supported", c.name, err)
		}
	}
}

// TestDiscovery: netlink and sysfs say the same, and netlink more.
func TestDiscovery(t *testing.T) {
	hosts := vmtest.Hosts(t, 1)
	infos, err := System{}.Devices()
	if err != nil || len(infos) != len(hosts) {
		t.Fatalf("%d devices for %d hosts: %v", len(infos), len(hosts), err)
	}
	fromFiles, err := sysfsDevices(sysClass)
	if err != nil {
		t.Fatal(err)
	}
	for i, info := range infos {
		for _, s := range fromFiles {
			if s.Name == info.Name {
				s.Index = info.Index
				if s != info {
					t.Errorf("sysfs: %+v\nnetlink: %+v", s, info)
				}
			}
		}
		ports, err := System{}.Ports(info)
		if err != nil || len(ports) != 1 || ports[0].Number != 1 || ports[0].State != 4 || ports[0].Interface != hosts[i].Interface {
			t.Errorf("ports of %s: %+v, %v", info.Name, ports, err)
		}
	}
	s, err := System{}.Info()
	if err != nil || !s.SharedNetNS || !s.CopyOnFork {
		t.Errorf("%+v, %v", s, err)
	}
}
