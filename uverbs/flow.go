// SPDX-License-Identifier: Apache-2.0

package uverbs

import "purerdma/abi"

// CreateFlow makes packets that match specs go to a queue pair, and returns the handle of the flow
// (IB_USER_VERBS_EX_CMD_CREATE_FLOW). specs are mirrored structs such as abi.UverbsFlowSpecEth, one
// after the other. attr.Size and attr.NumOfSpecs are their length and number.
func (f *File) CreateFlow(qp uint32, attr abi.UverbsFlowAttr, specs []byte, drv Driver) (uint32, error) {
	cmd := append(abi.Bytes(&abi.UverbsCreateFlow{QPHandle: qp, FlowAttr: attr}), specs...)
	var resp abi.UverbsCreateFlowResp
	err := f.InvokeWrite(ex|abi.IB_USER_VERBS_EX_CMD_CREATE_FLOW, cmd, abi.Bytes(&resp), drv)
	return resp.FlowHandle, err
}

// DestroyFlow ends CreateFlow (UVERBS_METHOD_FLOW_DESTROY).
func (f *File) DestroyFlow(flow uint32) error {
	return f.destroy(abi.UVERBS_OBJECT_FLOW, abi.UVERBS_METHOD_FLOW_DESTROY, abi.UVERBS_ATTR_DESTROY_FLOW_HANDLE, flow)
}

// FlowActionESP is an IPsec action for flows. When it is modified, nil fields
// stay as they are.
type FlowActionESP struct {
	Attrs  *abi.UverbsFlowActionESP
	ESN    *uint32
	Keymat *abi.UverbsFlowActionESPKeymatAESGCM
	// Replay is the window against replays. NoReplay turns that off.
	Replay   *abi.UverbsFlowActionESPReplayBmp
	NoReplay bool
	Encap    *abi.UverbsFlowActionESPEncap
}

func (a *FlowActionESP) append(attrs []Attr) []Attr {
	if a.Attrs != nil {
		attrs = append(attrs, in(abi.UVERBS_ATTR_FLOW_ACTION_ESP_ATTRS, a.Attrs))
	}
	if a.ESN != nil {
		attrs = append(attrs, in(abi.UVERBS_ATTR_FLOW_ACTION_ESP_ESN, a.ESN))
	}
	if a.Keymat != nil {
		k := in(abi.UVERBS_ATTR_FLOW_ACTION_ESP_KEYMAT, a.Keymat)
		k.Elem = abi.IB_UVERBS_FLOW_ACTION_ESP_KEYMAT_AES_GCM
		attrs = append(attrs, k)
	}
	switch {
	case a.Replay != nil:
		r := in(abi.UVERBS_ATTR_FLOW_ACTION_ESP_REPLAY, a.Replay)
		r.Elem = abi.IB_UVERBS_FLOW_ACTION_ESP_REPLAY_BMP
		attrs = append(attrs, r)
	case a.NoReplay:
		attrs = append(attrs, Attr{ID: abi.UVERBS_ATTR_FLOW_ACTION_ESP_REPLAY, Kind: AttrIn, Elem: abi.IB_UVERBS_FLOW_ACTION_ESP_REPLAY_NONE})
	}
	if a.Encap != nil {
		attrs = append(attrs, in(abi.UVERBS_ATTR_FLOW_ACTION_ESP_ENCAP, a.Encap))
	}
	return attrs
}

// CreateFlowActionESP makes an action and returns its handle
// (UVERBS_METHOD_FLOW_ACTION_ESP_CREATE). Attrs and Keymat are required.
func (f *File) CreateFlowActionESP(a FlowActionESP) (uint32, error) {
	return f.create(abi.UVERBS_OBJECT_FLOW_ACTION, abi.UVERBS_METHOD_FLOW_ACTION_ESP_CREATE,
		a.append([]Attr{newHandle(abi.UVERBS_ATTR_CREATE_FLOW_ACTION_ESP_HANDLE)})...)
}

// ModifyFlowActionESP changes an action (UVERBS_METHOD_FLOW_ACTION_ESP_MODIFY).
func (f *File) ModifyFlowActionESP(action uint32, a FlowActionESP) error {
	_, err := f.ioctl(abi.UVERBS_OBJECT_FLOW_ACTION, abi.UVERBS_METHOD_FLOW_ACTION_ESP_MODIFY,
		a.append([]Attr{handle(abi.UVERBS_ATTR_MODIFY_FLOW_ACTION_ESP_HANDLE, action)})...)
	return err
}

// DestroyFlowAction destroys an action of any kind
// (UVERBS_METHOD_FLOW_ACTION_DESTROY).
func (f *File) DestroyFlowAction(action uint32) error {
	return f.destroy(abi.UVERBS_OBJECT_FLOW_ACTION, abi.UVERBS_METHOD_FLOW_ACTION_DESTROY, abi.UVERBS_ATTR_DESTROY_FLOW_ACTION_HANDLE, action)
}
