// SPDX-License-Identifier: Apache-2.0

package hwcheck

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"purerdma/abi"
	"purerdma/internal/cmdtrace"
	"purerdma/internal/hwreport"
	"purerdma/uverbs"
)

// commandChecks keep the commands of other programs to the kernel. They also run on devices without a provider, and their files have the requests
// of the device's own library, with which a provider can begin.
var commandChecks = []Check{
	{ID: "program-commands", Local: true, bare: true, Title: "commands of rdma-core's programs to the kernel's driver, in bytes", needs: needsTrace, do: checkProgramCommands},
}

// CommandsFile has the commands of the check program-commands.
const CommandsFile = "commands.json"

// tracedPrograms are the programs whose commands are kept. All of them except rping take the flags of the pingpong programs.
var tracedPrograms = []string{"ibv_devinfo", "ibv_rc_pingpong", "ibv_ud_pingpong", "ibv_srq_pingpong", "rping", "ib_write_bw"}

// programCommands has the commands of one program.
type programCommands struct {
	Program string        `json:"program"`
	Calls   []*kernelCall `json:"calls"`
}

// needsTrace checks that a program is installed, and that this process may trace another one.
func needsTrace(t *trial) string {
	if reason := needsKernel(t); reason != "" {
		return reason
	}
	if !t.target.Addr.IsValid() {
		return "no address of the port's network interface is known (-a)"
	}
	_, err := t.target.installed(tracedPrograms[0])
	for _, name := range tracedPrograms[1:] {
		if err != nil {
			_, err = t.target.installed(name)
		}
	}
	if err != nil {
		return err.Error()
	}
	return untraceable(t.ctx)
}

// untraceable returns the reason why this process cannot trace a program, or "".
func untraceable(ctx context.Context) string {
	name, err := exec.LookPath("true")
	if err != nil {
		return err.Error()
	}
	if out, err := cmdtrace.Program(ctx, os.DevNull, name).CombinedOutput(); err != nil {
		return fmt.Sprintf("no program can be traced: %v: %s", err, last(out))
	}
	return ""
}

func checkProgramCommands(t *trial) {
	k := &recordingKernel{secrets: t.secrets()}
	dir, err := os.MkdirTemp("", "rdmahw-commands-")
	t.must("create a directory", err)
	t.later(func() error { return os.RemoveAll(dir) })
	var all []programCommands
	for _, name := range tracedPrograms {
		path, err := t.target.installed(name)
		if err != nil {
			t.note("%v", err)
			continue
		}
		commands, err := t.traceProgram(name, path, filepath.Join(dir, name))
		if err != nil {
			t.note("%s: %v", name, err)
			continue
		}
		calls := k.converted(commands)
		t.note("%s: %s", name, summary(calls))
		if slices.ContainsFunc(calls, func(c *kernelCall) bool { return c.RC == 0 && c.Length == 0 }) {
			all = append(all, programCommands{name, calls})
		}
	}
	t.must("write the commands", t.leave(CommandsFile, all))
	if len(all) == 0 {
		t.end(hwreport.Unknown, "no program of rdma-core has worked")
	}
}

// summary describes the commands of a program.
func summary(calls []*kernelCall) string {
	mappings, driver := 0, 0
	for _, c := range calls {
		if c.Length > 0 {
			mappings++
		}
		for _, attrs := range []map[string]string{c.In, c.Out} {
			for id, text := range attrs {
				if n, err := strconv.Atoi(id); err == nil && n >= abi.UVERBS_ATTR_UHW_IN {
					driver += len(text) / 2
				}
			}
		}
	}
	return fmt.Sprintf("%d commands, %d mappings, %d bytes of the driver", len(calls)-mappings, mappings, driver)
}

// traceProgram runs a program with itself as its peer, and returns the commands of the client.
func (t *trial) traceProgram(name, path, file string) ([]*cmdtrace.Command, error) {
	ctx, cancel := context.WithTimeout(t.ctx, programTime)
	defer cancel()
	port, err := t.freePort()
	if err != nil {
		return nil, err
	}
	addr := t.target.Addr.String()
	device := []string{"-d", t.target.Device, "-i", strconv.Itoa(int(t.target.Port))}
	server := []string{"-s", "-a", addr, "-p", port, "-C", "5"}
	client := []string{"-c", "-a", addr, "-p", port, "-C", "5"}
	switch name {
	case "ibv_devinfo":
		out, err := cmdtrace.Program(ctx, file, append([]string{path, "-v"}, device...)...).CombinedOutput()
		if err != nil {
			return nil, fmt.Errorf("%w: %s", err, last(out))
		}
		return cmdtrace.Read(file)
	case "rping":
	default:
		index := "-g"
		if name == "ib_write_bw" {
			index = "-x"
		}
		server = append(device, "-p", port, "-n", "20")
		if gid, ok := t.target.gidIndex(); ok {
			server = append(server, index, strconv.Itoa(gid))
		}
		client = append(slices.Clone(server), addr)
	}
	_, err = runPairOf(ctx, programStart, append([]string{path}, server...), func() *exec.Cmd {
		return cmdtrace.Program(ctx, file, append([]string{path}, client...)...)
	})
	if err != nil {
		return nil, err
	}
	return cmdtrace.Read(file)
}

// gidIndex returns the index of the GID of RoCE v2 of the target's address, from /sys. A provider is not needed for that. ok is false
// if the port has none.
func (t *Target) gidIndex() (index int, ok bool) {
	port := filepath.Join("/sys/class/infiniband", t.Device, "ports", strconv.Itoa(int(t.Port)))
	for i := range 256 {
		gid, err := os.ReadFile(filepath.Join(port, "gids", strconv.Itoa(i)))
		if err != nil {
			return 0, false
		}
		addr, err := netip.ParseAddr(strings.TrimSpace(string(gid)))
		if err != nil || addr.Unmap() != t.Addr.Unmap().WithZone("") {
			continue
		}
		if typ, err := os.ReadFile(filepath.Join(port, "gid_attrs", "types", strconv.Itoa(i))); err == nil && strings.TrimSpace(string(typ)) == "RoCE v2" {
			return i, true
		}
	}
	return 0, false
}

// addressed are the commands whose core parts have addresses of ports.
var addressed = []string{
	"IB_USER_VERBS_CMD_MODIFY_QP", "IB_USER_VERBS_EX_CMD_MODIFY_QP", "IB_USER_VERBS_CMD_QUERY_QP", "IB_USER_VERBS_CMD_CREATE_AH", "IB_USER_VERBS_CMD_QUERY_PORT",
	"IB_USER_VERBS_CMD_ATTACH_MCAST", "IB_USER_VERBS_CMD_DETACH_MCAST",
}

// converted converts the commands to devices, without secrets. It leaves out the commands of the connection manager, which are not the driver's.
func (k *recordingKernel) converted(commands []*cmdtrace.Command) (calls []*kernelCall) {
	for _, c := range commands {
		call := &kernelCall{Object: c.Object, Method: c.Method, RC: int(c.Errno), In: map[string]string{}, Out: map[string]string{}}
		text := func(b []byte) string { return hex.EncodeToString(k.redacted(c.Object, c.Method, b)) }
		output := func(b []byte) string {
			return hex.EncodeToString(bytes.TrimRight(k.redacted(c.Object, c.Method, b), "\x00"))
		}
		switch c.Device {
		case "mmap":
			call = &kernelCall{Name: "mmap", Offset: c.Offset, Length: int(c.Length), RC: int(c.Errno)}
		case "ioctl":
			req := uverbs.Request{Object: c.Object, Method: c.Method}
			for i := range c.Attrs {
				req.Attrs = append(req.Attrs, uverbs.Attr{ID: c.Attrs[i].ID, Buf: c.Attrs[i].In})
			}
			call.Name = req.Name()
			for i := range c.Attrs {
				a := &c.Attrs[i]
				id := strconv.Itoa(int(a.ID))
				if a.ID < abi.UVERBS_ATTR_UHW_IN && slices.Contains(addressed, call.Name) {
					continue
				}
				if a.In != nil {
					call.In[id] = text(a.In)
				}
				if a.Out != nil {
					call.Out[id] = output(a.Out)
				}
			}
		case "uverbs":
			hdr := abi.Size[abi.UverbsCmdHdr]()
			if len(c.Bytes) < hdr {
				continue
			}
			h := abi.View[abi.UverbsCmdHdr](bytes.Clone(c.Bytes[:hdr]))
			call.Written = h.Command
			call.Name = fmt.Sprintf("write %#x", h.Command)
			if cmd := uverbs.CommandOf(h.Command); cmd != nil {
				call.Name = cmd.String()
			}
			if slices.Contains(addressed, call.Name) {
				break
			}
			call.In["0"] = text(c.Bytes)
			if c.Result != nil {
				call.Out["0"] = output(c.Result)
			}
		default:
			continue
		}
		calls = append(calls, call)
	}
	return calls
}
