// SPDX-License-Identifier: Apache-2.0

//go:build linux

package uverbs

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"purerdma/internal/vmtest"
)

func TestMain(m *testing.M) {
	flag.Parse()
	if flag.Lookup("test.fuzz").Value.String() != "" {
		os.Exit(m.Run()) // the fuzzer leaves files open
	}
	vmtest.Main(m)
}

// refusal holds the errors of a call: one for all kernels, or one for the newer kernels.
type refusal struct {
	all  error
	from string // first kernel series that returns newer, "" for none
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

// refusals lists the calls that rxe does not support, with their errors. All other calls
// succeed.
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
	"ReregMR":                  {all: errors.ErrUnsupported, from: "6.12"},
	"CreateSRQ of type XRC":    {all: syscall.EINVAL},         // no such object exists
	"CreateQP of type XRC_TGT": {all: syscall.EINVAL},         // no such object exists
	"CreateQP with a table":    {all: syscall.EINVAL},         // no such object exists
	"AsyncChannel.Next":        {all: os.ErrDeadlineExceeded}, // no event occurs
}

// openHost opens the device of a host of the VM.
func openHost(t *testing.T, host vmtest.Host) *File {
	t.Helper()
	infos, err := System{}.Devices()
	if err != nil {
		t.Fatalf("System.Devices: %v", err)
	}
	for _, info := range infos {
		if info.Name == host.Device {
			f, err := Open(System{}, info)
			if err != nil {
				t.Fatalf("Open: %v", err)
			}
			t.Cleanup(func() { f.Close() })
			return f
		}
	}
	t.Fatalf("Devices() does not list %s", host.Device)
	return nil
}

// TestKernelAnswers passes every command to the kernel.
func TestKernelAnswers(t *testing.T) {
	host := vmtest.Hosts(t, 1)[0]
	f := openHost(t, host)
	mem, err := syscall.Mmap(-1, 0, 4096, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON)
	if err != nil {
		t.Fatalf("syscall.Mmap: %v", err)
	}
	defer syscall.Munmap(mem)
	o := &objects{mem: mem}
	defer o.close()
	release := os.Getenv("RDMAVM_KERNEL_RELEASE")
	for _, c := range calls() {
		err := c.run(f, o)
		want := refusals[c.name].on(release)
		t.Logf("%-28s %v", c.name, err)
		if driver := os.Getenv("RDMAVM_DRIVER"); driver != "rxe" {
			// The table is for rxe. Other drivers may refuse more commands, but with these
			// errors.
			if err != nil && !errors.Is(err, errors.ErrUnsupported) && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, syscall.ENOENT) && !errors.Is(err, want) {
				t.Errorf("%s on %s = %v, want nil, ErrUnsupported, EINVAL or ENOENT", c.name, driver, err)
			}
			continue
		}
		if !errors.Is(err, want) {
			t.Errorf("%s on Linux %s = %v, want %v", c.name, release, err, want)
		}
		if errors.Is(want, errors.ErrUnsupported) && err != nil && !strings.Contains(err.Error(), "is not supported") {
			t.Errorf("%s = %v, want the unsupported feature in the error", c.name, err)
		}
	}
}

// TestDiscovery compares the devices from sysfs with the devices from netlink, which has
// additional fields.
func TestDiscovery(t *testing.T) {
	hosts := vmtest.Hosts(t, 1)
	infos, err := System{}.Devices()
	if err != nil || len(infos) != len(hosts) {
		t.Fatalf("Devices() = %d devices, %v, want %d, nil", len(infos), err, len(hosts))
	}
	fromFiles, err := sysfsDevices(sysClass)
	if err != nil {
		t.Fatalf("sysfsDevices(sysClass): %v", err)
	}
	for _, info := range infos {
		// A device that was created again is at another position of the list.
		i := slices.IndexFunc(hosts, func(h vmtest.Host) bool { return h.Device == info.Name })
		if i < 0 {
			t.Fatalf("Devices() lists %s, which is not in %v", info.Name, hosts)
		}
		for _, s := range fromFiles {
			if s.Name == info.Name {
				s.Index = info.Index
				if s != info {
					t.Errorf("sysfs device = %+v, want %+v as from netlink", s, info)
				}
			}
		}
		ports, err := System{}.Ports(info)
		if err != nil || len(ports) != 1 || ports[0].Number != 1 || ports[0].State != 4 || ports[0].Interface != hosts[i].Interface {
			t.Errorf("Ports(%s) = %+v, %v, want active port 1", info.Name, ports, err)
		}
	}
	s, err := System{}.Info()
	if err != nil || !s.SharedNetNS || !s.CopyOnFork {
		t.Errorf("Info() = %+v, %v, want SharedNetNS and CopyOnFork", s, err)
	}
}

// TestAsyncEvents adds an address to the interface. The port then reports a new GID.
func TestAsyncEvents(t *testing.T) {
	host := vmtest.Hosts(t, 1)[0]
	f := openHost(t, host)
	if _, err := f.GetContext(Driver{}); err != nil {
		t.Fatalf("File.GetContext(Driver{}): %v", err)
	}
	events, err := f.AllocAsync()
	if err != nil {
		t.Fatalf("File.AllocAsync: %v", err)
	}
	defer events.Close()
	link, err := netlink.LinkByName(host.Interface)
	if err != nil {
		t.Fatalf("netlink.LinkByName: %v", err)
	}
	addr, err := netlink.ParseAddr("10.77.0.1/32")
	if err != nil {
		t.Fatalf("netlink.ParseAddr: %v", err)
	}
	if err := netlink.AddrAdd(link, addr); err != nil {
		t.Fatalf("netlink.AddrAdd: %v", err)
	}
	defer netlink.AddrDel(link, addr)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	e, err := events.Next(ctx)
	if err != nil || e.Type != EventGIDChange || e.Element != 1 {
		t.Errorf("Next = %v of element %d, %v, want EventGIDChange of port 1", e.Type, e.Element, err)
	}
	ended := make(chan error)
	go func() {
		for {
			if _, err := events.Next(context.Background()); err != nil {
				ended <- err
				return
			}
		}
	}()
	time.Sleep(10 * time.Millisecond)
	events.Close()
	if err := <-ended; err != net.ErrClosed {
		t.Errorf("Next after Close = %v, want net.ErrClosed", err)
	}
}

// TestCredentials runs commands in a thread that has set its credentials again. The kernel
// refuses such a thread the commands of write(2), but not the commands of ioctl(2).
func TestCredentials(t *testing.T) {
	f := openHost(t, vmtest.Hosts(t, 1)[0])
	if _, err := f.GetContext(Driver{}); err != nil {
		t.Fatalf("File.GetContext(Driver{}): %v", err)
	}
	cq, err := f.CreateCQ(CQConfig{Entries: 1}, uhw(16))
	if err != nil {
		t.Fatalf("File.CreateCQ: %v", err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // permanent: the thread exits with the goroutine
		if _, _, errno := syscall.RawSyscall(syscall.SYS_SETGID, uintptr(syscall.Getgid()), 0, 0); errno != 0 {
			t.Errorf("SYS_SETGID: %v", errno)
		}
		var ce *CredentialsError
		if err := f.NewNotifier(cq.Handle).Notify(false); !errors.As(err, &ce) || !errors.Is(err, syscall.EACCES) {
			t.Errorf("Notify after setgid = %v, want a CredentialsError and EACCES", err)
		} else {
			t.Logf("Notify after setgid: %v", err)
		}
		if err := f.ReqNotifyCQ(cq.Handle, false); err != nil {
			t.Errorf("File.ReqNotifyCQ: %v", err)
		}
	}()
	<-done
	if err := f.NewNotifier(cq.Handle).Notify(false); err != nil {
		t.Errorf("Notify of another thread: %v, want nil", err)
	}
}
