// SPDX-License-Identifier: Apache-2.0

package hwcheck

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"purerdma/abi"
	"purerdma/internal/hwreport"
	"purerdma/uverbs"
	"purerdma/verbs"
)

// answerChecks keep the responses of the kernel and of its driver. They also run on devices without a provider, and their files
// show how to write one.
var answerChecks = []Check{
	{ID: "kernel-answers", Local: true, bare: true, Title: "responses of the kernel's driver, in bytes", do: checkKernelAnswers},
	{ID: "address-resolution", Local: true, bare: true, Title: "address and route of the connection manager, without a connection", needs: needsKernel, do: checkResolution},
}

// AnswersFile has the commands of the check kernel-answers, with the responses in bytes.
const AnswersFile = "answers.json"

// answers is the contents of AnswersFile.
type answers struct {
	Driver     string `json:"driver"` // its number in rdma/ib_user_ioctl_verbs.h
	ABIVersion uint32 `json:"abi_version"`
	// Library has the commands of the library's provider. It is empty if there is none.
	Library []*kernelCall `json:"library,omitempty"`
	// Probes has commands without the driver's own part, as far as the driver accepts them.
	Probes []*kernelCall `json:"probes"`
}

func checkKernelAnswers(t *trial) {
	k := &recordingKernel{Kernel: t.target.kernel(), secrets: t.secrets()}
	info, err := t.target.info()
	t.must("find the device", err)
	a := answers{Driver: fmt.Sprint(uint32(info.DriverID)), ABIVersion: info.ABIVersion}
	libraryErr := t.useObjects(&verbs.Host{Drivers: t.target.Host.Drivers, Kernel: k, Log: t.target.Host.Log})
	a.Library = k.take()
	t.note("library: %d commands, %s", len(a.Library), outcomeOf(libraryErr))
	opened := t.probe(k, info)
	a.Probes = k.take()
	for _, c := range append(a.Library, a.Probes...) {
		if c.creates() {
			t.note("%s", c)
		}
	}
	t.must("write the responses", t.leave(AnswersFile, &a))
	_, missing := errors.AsType[*verbs.NoProviderError](libraryErr)
	switch {
	case libraryErr != nil && !missing:
		t.fail("create one object of each kind: %v", libraryErr)
	case missing && !opened:
		t.end(hwreport.Unknown, "the library has no provider, and the driver makes no context without a request of its own")
	}
}

// outcomeOf describes an error, or its absence.
func outcomeOf(err error) string {
	if err == nil {
		return "success"
	}
	return err.Error()
}

// leave writes a file of the check as JSON.
func (t *trial) leave(name string, v any) error {
	if t.target.Files == "" {
		return nil
	}
	b, err := json.MarshalIndent(v, "", "\t")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(t.target.Files, name), append(b, '\n'), 0o644)
}

// useObjects opens the device on a host of its own, and creates and closes one object of each kind.
func (t *trial) useObjects(host *verbs.Host) (err error) {
	dev, err := host.Open(t.target.Device)
	if err != nil {
		return err
	}
	closers := []func() error{dev.Close}
	defer func() {
		for len(closers) > 0 {
			last := len(closers) - 1
			err = errors.Join(err, closers[last]())
			closers = closers[:last]
		}
	}()
	made := func(close func() error) { closers = append(closers, close) }
	if _, err := dev.QueryPort(t.target.Port); err != nil {
		return err
	}
	pd, err := dev.AllocPD()
	if err != nil {
		return err
	}
	made(pd.Close)
	mr, err := pd.Alloc(4096, verbs.LocalWrite)
	if err != nil {
		return err
	}
	made(mr.Close)
	cq, err := dev.CreateCQ(verbs.CQConfig{Entries: 16})
	if err != nil {
		return err
	}
	made(cq.Close)
	if srq, err := pd.CreateSRQ(verbs.SRQConfig{MaxWR: 16}); err == nil {
		made(srq.Close)
	} else if !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	types := []verbs.QPType{verbs.RC}
	if dev.Features().UD {
		types = append(types, verbs.UD)
	}
	for _, typ := range types {
		qp, err := pd.CreateQP(verbs.QPConfig{Type: typ, SendCQ: cq, RecvCQ: cq})
		if err != nil {
			return err
		}
		made(qp.Close)
	}
	gid, err := t.target.gid(dev)
	if err != nil || iwarp(dev) {
		return nil // no address to use
	}
	ah, err := pd.CreateAH(verbs.AHAttr{Port: t.target.Port, Global: true, GRH: verbs.GlobalRoute{DGID: gid.GID, SGIDIndex: gid.Index, HopLimit: 1}})
	if err != nil {
		return err
	}
	made(ah.Close)
	return nil
}

// contextRequests has the driver's parts of GET_CONTEXT with which the probes try to make a context, in this order. Some drivers need none.
// Others accept zeros, which request no optional feature.
func contextRequests(driver abi.DriverID) [][]byte {
	list := [][]byte{nil}
	for _, size := range []int{8, 16, 32, 64} {
		list = append(list, make([]byte, size))
	}
	if driver == abi.RDMA_DRIVER_IRDMA {
		// struct irdma_alloc_ucontext_req has the version of the interface after 4 reserved bytes.
		list = append(list, []byte{4: 5, 15: 0})
	}
	return list
}

// driverRoom is the room for the driver's part of a response. The largest of them are below 300 bytes.
const driverRoom = 1024

// probe executes commands without a provider. It reports whether the driver makes a context.
func (t *trial) probe(k uverbs.Kernel, info uverbs.DeviceInfo) bool {
	for _, in := range contextRequests(info.DriverID) {
		f, err := uverbs.Open(k, info)
		t.opened(err)
		_, err = f.GetContext(uverbs.Driver{In: in, Out: make([]byte, driverRoom)})
		if err == nil {
			t.probeObjects(f)
		}
		t.must("close the device", f.Close()) // with all objects
		if err == nil {
			t.note("probes: a context with %d bytes of the driver", len(in))
			return true
		}
		t.note("probes: no context with %d bytes of the driver: %v", len(in), err)
	}
	return false
}

// probeObjects tries to create objects with an empty part of the driver. The recording has the results.
func (t *trial) probeObjects(f *uverbs.File) {
	room := func() uverbs.Driver { return uverbs.Driver{Out: make([]byte, driverRoom)} }
	f.QueryDevice()
	f.QueryDeviceEx(room())
	f.QueryPort(t.target.Port)
	f.QueryGIDTable(256)
	pd, err := f.AllocPD(room())
	if err != nil {
		return
	}
	cap := abi.UverbsQPCap{MaxSendWR: 16, MaxRecvWR: 16, MaxSendSGE: 1, MaxRecvSGE: 1}
	for _, size := range []int{0, 64} {
		drv := func() uverbs.Driver {
			d := room()
			if size > 0 {
				d.In = make([]byte, size) // an address of 0 is never valid
			}
			return d
		}
		f.CreateSRQ(uverbs.SRQConfig{PD: pd, MaxWR: 16, MaxSGE: 1}, drv())
		cq, err := f.CreateCQ(uverbs.CQConfig{Entries: 16}, drv())
		if err != nil {
			continue
		}
		for _, typ := range []uint8{abi.IB_UVERBS_QPT_RC, abi.IB_UVERBS_QPT_UD} {
			f.CreateQP(uverbs.QPConfig{Type: typ, PD: pd, SendCQ: cq.Handle, RecvCQ: cq.Handle, Cap: cap}, drv())
		}
	}
}
