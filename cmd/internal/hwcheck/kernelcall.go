// SPDX-License-Identifier: Apache-2.0

package hwcheck

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"purerdma/abi"
	"purerdma/uverbs"
)

// kernelCall is a command to the kernel with its response. README.md of test/oracle describes the members, except for the name.
type kernelCall struct {
	Name   string `json:"name"`
	Object uint16 `json:"o"`
	Method uint16 `json:"m"`
	RC     int    `json:"rc"` // errno
	// In and Out have the attributes by their numbers, in hexadecimal. Zeros at the end of an output are omitted.
	In  map[string]string `json:"in,omitempty"`
	Out map[string]string `json:"out,omitempty"`
	// Offset and Length are of a mapping.
	Offset int64 `json:"mmap,omitempty"`
	Length int   `json:"len,omitempty"`
	// Written is the command of a write(2), whose bytes are in In and Out under 0.
	Written uint32 `json:"write,omitempty"`
}

// creates reports whether the command queries or creates something, so that its response is of interest.
func (c *kernelCall) creates() bool {
	return !strings.Contains(c.Name, "DESTROY") && !strings.Contains(c.Name, "DEALLOC") && c.Length == 0
}

// String describes the result of the command.
func (c *kernelCall) String() string {
	core, driver := 0, 0
	for id, text := range c.Out {
		if id == strconv.Itoa(abi.UVERBS_ATTR_UHW_OUT) {
			driver += len(text) / 2
		} else {
			core += len(text) / 2
		}
	}
	if c.RC != 0 {
		return fmt.Sprintf("%s: %v", c.Name, syscall.Errno(c.RC))
	}
	return fmt.Sprintf("%s: %d bytes, %d of the driver", c.Name, core, driver)
}

// recordingKernel is a kernel that records the commands to it. It replaces the secrets in them by zeros.
type recordingKernel struct {
	uverbs.Kernel
	secrets [][]byte // addresses of the host

	mu    sync.Mutex
	calls []*kernelCall
}

// take returns and removes the recorded commands.
func (k *recordingKernel) take() []*kernelCall {
	k.mu.Lock()
	defer k.mu.Unlock()
	calls := k.calls
	k.calls = nil
	return calls
}

func (k *recordingKernel) add(c *kernelCall) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.calls = append(k.calls, c)
}

// Open opens a device whose commands are recorded.
func (k *recordingKernel) Open(info uverbs.DeviceInfo) (uverbs.Transport, error) {
	t, err := k.Kernel.Open(info)
	if err != nil {
		return nil, err
	}
	return &recordingTransport{t, k}, nil
}

// recordingTransport is a device whose commands are recorded.
type recordingTransport struct {
	uverbs.Transport
	k *recordingKernel
}

// Ioctl executes and records a request.
func (t *recordingTransport) Ioctl(req *uverbs.Request) error {
	err := t.Transport.Ioctl(req)
	c := &kernelCall{Name: req.Name(), Object: req.Object, Method: req.Method, In: map[string]string{}, Out: map[string]string{}}
	errno, _ := err.(syscall.Errno)
	c.RC = int(errno)
	for i := range req.Attrs {
		a := &req.Attrs[i]
		id := strconv.Itoa(int(a.ID))
		switch a.Kind {
		case uverbs.AttrOut:
			c.Out[id] = hex.EncodeToString(bytes.TrimRight(t.k.redacted(req.Object, req.Method, a.Buf), "\x00"))
		case uverbs.AttrIn:
			c.In[id] = hex.EncodeToString(t.k.redacted(req.Object, req.Method, a.Buf))
		}
	}
	t.k.add(c)
	return err
}

// Mmap maps a part of the device and records its offset.
func (t *recordingTransport) Mmap(offset int64, length int) ([]byte, error) {
	b, err := t.Transport.Mmap(offset, length)
	errno, _ := err.(syscall.Errno)
	t.k.add(&kernelCall{Name: "mmap", Offset: offset, Length: length, RC: int(errno)})
	return b, err
}

// redacted returns a copy of an attribute of a method without addresses of the host.
func (k *recordingKernel) redacted(object, method uint16, b []byte) []byte {
	b = bytes.Clone(b)
	if object == abi.UVERBS_OBJECT_DEVICE && method == abi.UVERBS_METHOD_QUERY_PORT && len(b) == abi.Size[abi.UverbsQueryPortRespEx]() {
		var port abi.UverbsQueryPortRespEx
		copy(abi.Bytes(&port), b)
		port.LegacyResp.LID, port.LegacyResp.SMLID = 0, 0
		copy(b, abi.Bytes(&port))
	}
	for _, s := range k.secrets {
		b = bytes.ReplaceAll(b, s, make([]byte, len(s)))
	}
	return b
}

// secrets returns the numbers that identify the host and its ports, in the forms that commands have: GUIDs, GIDs and MAC addresses.
func (t *trial) secrets() (list [][]byte) {
	add := func(b []byte) {
		if len(bytes.Trim(b, "\x00")) > 0 {
			list = append(list, bytes.Clone(b))
		}
	}
	guid := func(g uint64) {
		add(binary.BigEndian.AppendUint64(nil, g))
		add(binary.LittleEndian.AppendUint64(nil, g))
	}
	interfaces, err := net.Interfaces()
	t.must("list the network interfaces", err)
	for _, i := range interfaces {
		if len(i.HardwareAddr) >= 6 {
			add(i.HardwareAddr)
		}
	}
	info, err := t.target.info()
	t.must("find the device", err)
	guid(info.NodeGUID)
	dev, err := t.target.Host.Open(t.target.Device)
	if err != nil {
		return append(list, t.probedSecrets(info)...)
	}
	defer dev.Close()
	guid(dev.Attr().SysImageGUID)
	gids, err := dev.GIDs()
	t.must("query the GIDs", err)
	for _, g := range gids {
		add(g.GID[:])
	}
	return list
}

// probedSecrets is secrets for a device without a provider. GIDs and the GUID of the system are in responses to commands that need a context.
func (t *trial) probedSecrets(info uverbs.DeviceInfo) (list [][]byte) {
	for _, in := range contextRequests(info.DriverID) {
		f, err := uverbs.Open(t.target.kernel(), info)
		t.opened(err)
		if _, err = f.GetContext(uverbs.Driver{In: in, Out: make([]byte, driverRoom)}); err == nil {
			attr, aerr := f.QueryDevice()
			gids, gerr := f.QueryGIDTable(256)
			t.must("query the device", aerr)
			t.must("query the GIDs", gerr)
			if attr.SysImageGUID != [8]byte{} {
				list = append(list, attr.SysImageGUID[:])
			}
			for _, g := range gids {
				list = append(list, bytes.Clone(g.GID[:]))
			}
		}
		t.must("close the device", f.Close())
		if err == nil {
			break
		}
	}
	return list
}
