// SPDX-License-Identifier: Apache-2.0

package fakeuverbs

import (
	"syscall"

	"purerdma/abi"
	"purerdma/uverbs"
)

// AH is an address handle.
type AH struct {
	Handle uint32
	PD     *PD
	Attr   abi.UverbsAHAttr
}

// XRCD is an XRC domain. Users counts its objects.
type XRCD struct {
	Handle uint32
	Number uint32 // the hardware's number
	Users  int
}

func (c *Context) handleObjects() {
	c.Command(abi.IB_USER_VERBS_CMD_CREATE_AH, c.CreateAH)
	c.HandleDestroy(abi.UVERBS_OBJECT_AH, abi.UVERBS_METHOD_AH_DESTROY, func(req *uverbs.Request) error {
		a := c.AHs[Handle(req, abi.UVERBS_ATTR_DESTROY_AH_HANDLE)]
		if a == nil {
			return syscall.ENOENT
		}
		a.PD.Users--
		delete(c.AHs, a.Handle)
		return nil
	})
	c.Command(abi.IB_USER_VERBS_CMD_OPEN_XRCD, func(cmd *Command) error {
		x := &XRCD{Handle: c.NewHandle()}
		if c.Hardware != nil {
			if err := c.Hardware.OpenXRCD(x); err != nil {
				return err
			}
		}
		c.XRCDs[x.Handle] = x
		Answer(cmd, &abi.UverbsOpenXRCDResp{XRCDHandle: x.Handle})
		return nil
	})
	c.HandleDestroy(abi.UVERBS_OBJECT_XRCD, abi.UVERBS_METHOD_XRCD_DESTROY, func(req *uverbs.Request) error {
		x := c.XRCDs[Handle(req, abi.UVERBS_ATTR_DESTROY_XRCD_HANDLE)]
		switch {
		case x == nil:
			return syscall.ENOENT
		case x.Users > 0:
			return syscall.EBUSY
		}
		if c.Hardware != nil {
			c.Hardware.CloseXRCD(x)
		}
		delete(c.XRCDs, x.Handle)
		return nil
	})
}

// CreateAH answers CREATE_AH, except the driver's part.
func (c *Context) CreateAH(cmd *Command) error {
	in := Input[abi.UverbsCreateAH](cmd)
	p := c.PDs[in.PDHandle]
	if p == nil || in.Attr.PortNum != 1 || in.Attr.IsGlobal != 0 && !c.hasGID(in.Attr.GRH.SGIDIndex) ||
		in.Attr.IsGlobal == 0 && c.Port.Flags&abi.IB_UVERBS_QPF_GRH_REQUIRED != 0 {
		return syscall.EINVAL
	}
	p.Users++
	a := &AH{Handle: c.NewHandle(), PD: p, Attr: in.Attr}
	c.AHs[a.Handle] = a
	Answer(cmd, &abi.UverbsCreateAHResp{AHHandle: a.Handle})
	return nil
}

func (c *Context) hasGID(index uint8) bool {
	for i := range c.GIDs {
		if c.GIDs[i].GIDIndex == uint32(index) {
			return true
		}
	}
	return false
}
