// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cmtest_test

import (
	"context"

	"purerdma/abi"
	"purerdma/cm/cmtest"
	"purerdma/ucma"
	"purerdma/uverbs"
	"purerdma/verbs"
)

// answer holds the kernel's answer to a command, which is bytes or the handle of a new object.
type answer struct {
	cmtest.Command
	buf    []byte
	handle *uint64
}

// liar is a kernel that changes its answers. It does not change descriptors, because the
// library closes them, and a changed descriptor is another file of the test.
type liar struct {
	*cmtest.Kernel
	lie func(answer) // called concurrently
}

func (l *liar) host() *verbs.Host { return &verbs.Host{Drivers: l.Host().Drivers, Kernel: l} }

func (l *liar) OpenCM() (ucma.Device, error) {
	dev, err := l.Kernel.OpenCM()
	return &lyingCM{dev, l}, err
}

// lyingCM is the connection manager of a liar.
type lyingCM struct {
	ucma.Device
	l *liar
}

func (d *lyingCM) Write(b []byte) error {
	err := d.Device.Write(b)
	if err == nil {
		d.answered(b)
	}
	return err
}

func (d *lyingCM) WriteWhenReadable(ctx context.Context, b []byte) error {
	err := d.Device.WriteWhenReadable(ctx, b)
	if err == nil {
		d.answered(b)
	}
	return err
}

// answered calls lie with the answer to a command.
func (d *lyingCM) answered(frame []byte) {
	hdr := abi.View[abi.UcmCmdHdr](frame)
	if hdr.Out == 0 {
		return
	}
	cmd := frame[abi.Size[abi.UcmCmdHdr]():]
	to := abi.View[abi.UcmGetEvent](cmd).Response
	if hdr.Cmd == abi.RDMA_USER_CM_CMD_CREATE_ID {
		to = abi.View[abi.UcmCreateID](cmd).Response
	}
	d.l.lie(answer{Command: cmtest.Command{Device: "rdma_cm", Name: ucma.CommandName(hdr.Cmd)}, buf: to.Slice(int(hdr.Out))})
}

func (l *liar) Open(info uverbs.DeviceInfo) (uverbs.Transport, error) {
	t, err := l.Kernel.Open(info)
	return &lyingTransport{t, l, info.Name}, err
}

// lyingTransport is a device of a liar.
type lyingTransport struct {
	uverbs.Transport
	l    *liar
	name string
}

func (t *lyingTransport) Ioctl(req *uverbs.Request) error {
	err := t.Transport.Ioctl(req)
	cmd := cmtest.Command{Device: t.name, Name: req.Name()}
	if err != nil || cmd.Name == "IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL" {
		return err
	}
	for i := range req.Attrs {
		switch a := &req.Attrs[i]; a.Kind {
		case uverbs.AttrOut:
			t.l.lie(answer{Command: cmd, buf: a.Buf})
		case uverbs.AttrNewHandle:
			t.l.lie(answer{Command: cmd, handle: &a.Value})
		}
	}
	return nil
}
