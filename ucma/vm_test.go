// SPDX-License-Identifier: Apache-2.0

//go:build linux

package ucma_test

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"purerdma/abi"
	"purerdma/internal/cdev"
	"purerdma/internal/vmtest"
	"purerdma/ucma"
)

func TestMain(m *testing.M) {
	if os.Getenv("UCMA_TEST_CHILD") != "" {
		os.Exit(child())
	}
	vmtest.Main(m)
}

func open(t *testing.T) *ucma.File {
	t.Helper()
	f, err := ucma.Open(nil)
	if err != nil {
		t.Fatalf("ucma.Open(nil): %v", err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// must fails the test if a command failed. It is for commands whose response does not matter.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("command failed: %v", err)
	}
}

func expect(t *testing.T, f *ucma.File, want uint32) *ucma.Event {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	ev, err := f.GetEvent(ctx)
	must(t, err)
	if ev.Type != want {
		t.Fatalf("GetEvent = event %d with status %d, want event %d", ev.Type, ev.Status, want)
	}
	return ev
}

// TestEveryCommand runs each command on a real kernel and checks its response or its error.
func TestEveryCommand(t *testing.T) {
	hosts := vmtest.Hosts(t, 2)
	f := open(t)
	src := netip.AddrPortFrom(hosts[1].IPv4, 0)

	server, err := f.CreateID(100, abi.RDMA_PS_TCP, 0)
	must(t, err)
	must(t, f.SetOption(server, abi.RDMA_OPTION_ID, abi.RDMA_OPTION_ID_REUSEADDR, []byte{1, 0, 0, 0}))
	must(t, f.SetOption(server, abi.RDMA_OPTION_ID, abi.RDMA_OPTION_ID_AFONLY, []byte{1, 0, 0, 0}))
	must(t, f.Bind(server, ucma.IP(netip.AddrPortFrom(hosts[0].IPv4, 0))))
	must(t, f.Listen(server, 2))
	var addrs ucma.Addrs
	must(t, f.QueryAddr(server, &addrs))
	dst, ok := ucma.DecodeSockaddr(&addrs.Resp().SrcAddr)
	if !ok || dst.Addr() != hosts[0].IPv4 || dst.Port() == 0 {
		t.Fatalf("QueryAddr of the listener = %v, want %v with a port", dst, hosts[0].IPv4)
	}

	id, err := f.CreateID(101, abi.RDMA_PS_TCP, 0)
	must(t, err)
	must(t, f.SetOption(id, abi.RDMA_OPTION_ID, abi.RDMA_OPTION_ID_TOS, []byte{8}))
	must(t, f.SetOption(id, abi.RDMA_OPTION_ID, abi.RDMA_OPTION_ID_ACK_TIMEOUT, []byte{14}))
	must(t, f.Bind(id, ucma.IP(src)))
	must(t, f.ResolveAddr(id, ucma.IP(src), dst, 2*time.Second))
	if ev := expect(t, f, abi.RDMA_CM_EVENT_ADDR_RESOLVED); ev.UID != 101 || ev.ID != id {
		t.Errorf("ADDR_RESOLVED is for UID %d, ID %d, want 101, %d", ev.UID, ev.ID, id)
	}
	must(t, f.ResolveRoute(id, time.Second))
	expect(t, f, abi.RDMA_CM_EVENT_ROUTE_RESOLVED)
	if paths, err := f.QueryPath(id); err != nil || len(paths) != 1 || paths[0].Flags != abi.IB_PATH_GMP|abi.IB_PATH_PRIMARY|abi.IB_PATH_BIDIRECTIONAL {
		t.Errorf("QueryPath = %+v, %v, want one GMP, primary and bidirectional path", paths, err)
	}
	if err, gid := f.QueryGID(id, &addrs), addrs.Resp(); err != nil || gid.SrcAddr[0] != abi.AF_IB || gid.SrcSize != abi.SizeofSockaddrIB {
		t.Errorf("QueryGID = %+v, %v, want an AF_IB source address", gid, err)
	}
	attr := new(ucma.QPAttr)
	if err := f.InitQPAttr(id, 1, attr); err != nil || attr.Attr().PortNum != 1 {
		t.Errorf("InitQPAttr(INIT) = %+v, %v, want port 1", attr.Attr(), err)
	}
	param := abi.UcmConnParam{QPNum: 0x1234, RetryCount: 7, RNRRetryCount: 7}
	must(t, f.Connect(id, &param, abi.UcmECE{}))
	req := expect(t, f, abi.RDMA_CM_EVENT_CONNECT_REQUEST)
	if req.UID != 100 || req.ID == server || req.Conn().QPNum != 0x1234 {
		t.Errorf("request = %+v, want UID 100, a new ID and QP number 0x1234", req)
	}
	other := open(t)
	if _, err := other.MigrateID(req.ID, f); err != nil {
		t.Errorf("File.MigrateID: %v", err)
	}
	must(t, other.Accept(req.ID, 102, &param, abi.UcmECE{}))
	expect(t, f, abi.RDMA_CM_EVENT_CONNECT_RESPONSE)
	must(t, f.Establish(id))
	expect(t, other, abi.RDMA_CM_EVENT_ESTABLISHED)
	if err := other.Notify(req.ID, 4); !errors.Is(err, syscall.EISCONN) {
		t.Errorf("Notify(COMM_EST) of an established ID = %v, want EISCONN", err)
	}
	must(t, f.Disconnect(id))
	expect(t, other, abi.RDMA_CM_EVENT_DISCONNECTED)
	must(t, other.Disconnect(req.ID))
	expect(t, f, abi.RDMA_CM_EVENT_DISCONNECTED)
	if n, err := f.DestroyID(id); err != nil || n < 4 {
		t.Errorf("DestroyID = %d events, %v, want at least 4, nil", n, err)
	}
	must(t, other.Close())

	// The server rejects a request.
	id, err = f.CreateID(103, abi.RDMA_PS_TCP, 0)
	must(t, err)
	must(t, f.ResolveAddr(id, ucma.IP(src), dst, 2*time.Second))
	expect(t, f, abi.RDMA_CM_EVENT_ADDR_RESOLVED)
	must(t, f.ResolveRoute(id, time.Second))
	expect(t, f, abi.RDMA_CM_EVENT_ROUTE_RESOLVED)
	must(t, f.Connect(id, &param, abi.UcmECE{}))
	req = expect(t, f, abi.RDMA_CM_EVENT_CONNECT_REQUEST)
	must(t, f.Reject(req.ID, []byte("no"), 0))
	if ev := expect(t, f, abi.RDMA_CM_EVENT_REJECTED); ev.Status != 28 || string(private(ev)[:2]) != "no" {
		t.Errorf("REJECTED = status %d, private data %q, want 28, \"no\"", ev.Status, private(ev))
	}
}

func TestMulticast(t *testing.T) {
	hosts := vmtest.Hosts(t, 2)
	f := open(t)
	id, err := f.CreateID(1, abi.RDMA_PS_UDP, 0)
	must(t, err)
	must(t, f.Bind(id, ucma.IP(netip.AddrPortFrom(hosts[0].IPv4, 0))))
	group := netip.MustParseAddrPort("239.1.2.3:0")
	m, err := f.JoinMcast(id, 77, ucma.IP(group), abi.RDMA_MC_JOIN_FLAG_FULLMEMBER)
	if err != nil {
		t.Fatalf("JOIN_MCAST: %v", err)
	}
	ev := expect(t, f, abi.RDMA_CM_EVENT_MULTICAST_JOIN)
	if ev.UID != 77 || ev.ID != m || ev.Status != 0 || ev.UD().QPNum != 0xffffff || ev.UD().QKey == 0 {
		t.Errorf("event = %+v, want UID 77, ID %d, QP number 0xffffff and a Q_Key", ev, m)
	}
	if n, err := f.LeaveMcast(m); err != nil || n != 1 {
		t.Errorf("LeaveMcast = %d events, %v, want 1, nil", n, err)
	}
}

// TestNewCommands runs the commands of new kernels. A kernel without them must cause
// errors.ErrUnsupported. A kernel with them refuses a bound RoCE ID with its own errno.
func TestNewCommands(t *testing.T) {
	hosts := vmtest.Hosts(t, 2)
	f := open(t)
	id, err := f.CreateID(1, abi.RDMA_PS_TCP, 0)
	must(t, err)
	must(t, f.Bind(id, ucma.IP(netip.AddrPortFrom(hosts[0].IPv4, 0))))
	old := strings.HasPrefix(os.Getenv("RDMAVM_KERNEL_RELEASE"), "6.")
	err = f.WriteCMEvent(id, abi.RDMA_CM_EVENT_USER, 5, 0xcafe)
	if old {
		if !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("WriteCMEvent on an old kernel = %v, want ErrUnsupported", err)
		}
	} else {
		must(t, err)
		if ev := expect(t, f, abi.RDMA_CM_EVENT_USER); ev.Status != 5 || ev.UID != 1 {
			t.Errorf("event of WriteCMEvent = %+v, want status 5 and UID 1", ev)
		}
	}
	err = f.ResolveIBService(id, abi.UcmIBService{ServiceID: 1, Flags: abi.RDMA_USER_CM_IB_SERVICE_FLAG_ID})
	if old != errors.Is(err, errors.ErrUnsupported) && !errors.Is(err, syscall.EOPNOTSUPP) || err == nil {
		t.Errorf("ResolveIBService = %v, want EOPNOTSUPP, or ErrUnsupported on an old kernel", err)
	}
	if _, err := f.QueryIBService(id); err == nil || old != errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("QueryIBService = %v, want an error, which is ErrUnsupported on an old kernel", err)
	}
}

func TestForeignAndUnknownIDs(t *testing.T) {
	vmtest.Hosts(t, 2)
	f, other := open(t), open(t)
	id, err := f.CreateID(1, abi.RDMA_PS_TCP, 0)
	must(t, err)
	if err := other.Listen(id, 1); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("Listen on the ID of another file = %v, want EINVAL", err)
	}
	if err := f.Listen(1<<30, 1); !errors.Is(err, syscall.ENOENT) {
		t.Errorf("Listen on an unknown ID = %v, want ENOENT", err)
	}
	if _, err := f.CreateID(1, 0x0999, 0); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("CreateID in an unknown port space = %v, want EINVAL", err)
	}
}

// TestPassedFile passes an open file to another program. The kernel compares the program's
// credentials with the opener's credentials, and the error names this cause.
func TestPassedFile(t *testing.T) {
	vmtest.Hosts(t, 2)
	file, err := os.OpenFile(ucma.Path, os.O_RDWR, 0)
	must(t, err)
	defer file.Close()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "UCMA_TEST_CHILD=1")
	cmd.ExtraFiles = []*os.File{file}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "other credentials") || !strings.Contains(string(out), "permission denied") {
		t.Errorf("child: %v: %s, want permission denied because of other credentials", err, out)
	}
}

func child() int {
	dev, err := cdev.New(3, "rdma_cm")
	if err != nil {
		return 1
	}
	f := ucma.New(dev)
	defer f.Close()
	_, err = f.CreateID(1, abi.RDMA_PS_TCP, 0)
	os.Stdout.WriteString(err.Error())
	return 0
}

func private(ev *ucma.Event) []byte {
	c := ev.Conn()
	return c.PrivateData[:c.PrivateDataLen]
}
