// SPDX-License-Identifier: Apache-2.0

//go:build linux

package host

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"purerdma/test/microvm/kernel"
)

// model returns the model of a driver.
func model(t *testing.T, driver string) *kernel.Model {
	t.Helper()
	d, err := kernel.FindDriver(driver)
	if err != nil {
		t.Fatalf("kernel.FindDriver: %v", err)
	}
	return d.Model
}

// TestFault checks the error of lines that are not a device, a fault and its arguments.
func TestFault(t *testing.T) {
	h, err := startHCAs(t.Context(), model(t, "mlx5"), 2, t.TempDir(), nil)
	if err != nil {
		t.Fatalf("startHCAs: %v", err)
	}
	defer h.stop()
	for line, want := range map[string]string{
		"hca0 port-down\n":  "",
		"":                  `fault "": want DEVICE FAULT`,
		"hca0":              "want DEVICE FAULT",
		"hca0 drain 77\n":   `fault "hca0 drain 77": no QP in RTS 0x4d`,
		"hca2 drain 0x4d ":  "no such device",
		"hca0 lose 1 2 3 4": "want the numbers MESSAGES",
	} {
		err := h.fault(line)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("fault(%q) = %v, want %q", line, err, want)
		}
	}
}

// message returns a message of vfio-user.
func message(command uint16, body []byte) []byte {
	b := binary.LittleEndian.AppendUint16([]byte{1, 0}, command)
	b = binary.LittleEndian.AppendUint32(b, uint32(16+len(body)))
	return append(append(b, make([]byte, 8)...), body...)
}

// register returns the body of a store of 4 bytes to BAR 0.
func register(off uint64, v uint32) []byte {
	b := binary.LittleEndian.AppendUint64(nil, off)
	b = binary.LittleEndian.AppendUint64(b, 4<<32) // region 0, 4 bytes
	return binary.BigEndian.AppendUint32(b, v)
}

// TestHCAs acts as QEMU. It checks that each device answers at its socket and that nothing is
// left. It also checks the devices' errors.
func TestHCAs(t *testing.T) {
	dir := t.TempDir()
	o := &Options{Hosts: 2, Trace: filepath.Join(dir, "trace")}
	call := func(c net.Conn, command uint16, body []byte) []byte {
		t.Helper()
		c.Write(message(command, body))
		head := make([]byte, 16)
		if _, err := io.ReadFull(c, head); err != nil {
			t.Fatalf("io.ReadFull: %v", err)
		}
		b := make([]byte, binary.LittleEndian.Uint32(head[4:])-16)
		io.ReadFull(c, b)
		return b
	}
	own := errors.New("the run's own")
	var sockets []string
	err := o.withHCAs(t.Context(), model(t, "mlx5"), dir, func(h *hcas) error {
		sockets = h.sockets
		for i, path := range sockets {
			c, err := net.Dial("unix", path)
			if err != nil {
				t.Fatalf("net.Dial: %v", err)
			}
			defer c.Close()
			if b := call(c, 1, []byte{0, 0, 1, 0}); !bytes.Contains(b, []byte("capabilities")) {
				t.Errorf("device %d: answer to version = %q, want its capabilities", i, b)
			}
			// The IDs of a ConnectX-5, from the configuration space.
			head := binary.LittleEndian.AppendUint64(make([]byte, 8), 7|4<<32)
			if b := call(c, 9, head); len(b) != 20 || binary.LittleEndian.Uint32(b[16:]) != 0x101715b3 {
				t.Errorf("device %d: IDs = % x, want those of a ConnectX-5", i, b)
			}
			if i == 1 {
				call(c, 10, register(0x8800, 1)) // an unassigned page
				c.Write(make([]byte, 20))        // an invalid message
				io.Copy(io.Discard, c)           // wait until it has ended
			}
		}
		return own
	})
	if !errors.Is(err, own) {
		t.Errorf("withHCAs = %v, want the error of f in it", err)
	}
	for _, want := range []string{"hca1: UAR 0x8: ", "message of 0 bytes"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("withHCAs = %v, want %q in it", err, want)
		}
	}
	if b, err := os.ReadFile(o.Trace); err != nil || !strings.Contains(string(b), " hca1 doorbell page 0x8+0x800") {
		t.Errorf("trace = %q, %v, want the doorbell", b, err)
	}
	for _, s := range sockets {
		if _, err := net.Dial("unix", s); err == nil {
			t.Errorf("%s still accepts connections", s)
		}
	}
	if err := o.withHCAs(t.Context(), model(t, "mlx5"), filepath.Join(dir, "none"), func(*hcas) error { return nil }); err == nil {
		t.Error("withHCAs without a directory = nil, want an error")
	}
}
