// SPDX-License-Identifier: Apache-2.0

package uverbs

import (
	"reflect"

	"purerdma/abi"
)

// flowMethods lists the methods of flows and flow actions.
var flowMethods = []Method{
	destroyMethod(abi.UVERBS_OBJECT_FLOW, abi.UVERBS_METHOD_FLOW_DESTROY, abi.UVERBS_ATTR_DESTROY_FLOW_HANDLE, "FLOW_DESTROY", ""),
	{
		Object: abi.UVERBS_OBJECT_FLOW_ACTION, ID: abi.UVERBS_METHOD_FLOW_ACTION_ESP_CREATE, Name: "FLOW_ACTION_ESP_CREATE",
		Attrs: []AttrSpec{
			newObj(abi.UVERBS_ATTR_CREATE_FLOW_ACTION_ESP_HANDLE, abi.UVERBS_OBJECT_FLOW_ACTION),
			ptrIn[abi.UverbsFlowActionESP](abi.UVERBS_ATTR_FLOW_ACTION_ESP_ATTRS, "attrs"),
			optional(ptrIn[uint32](abi.UVERBS_ATTR_FLOW_ACTION_ESP_ESN, "esn")),
			enumIn(abi.UVERBS_ATTR_FLOW_ACTION_ESP_KEYMAT, "keymat", keymats...),
			optional(enumIn(abi.UVERBS_ATTR_FLOW_ACTION_ESP_REPLAY, "replay", replays...)),
			optional(ptrIn[abi.UverbsFlowActionESPEncap](abi.UVERBS_ATTR_FLOW_ACTION_ESP_ENCAP, "encap")),
		},
	},
	destroyMethod(abi.UVERBS_OBJECT_FLOW_ACTION, abi.UVERBS_METHOD_FLOW_ACTION_DESTROY, abi.UVERBS_ATTR_DESTROY_FLOW_ACTION_HANDLE, "FLOW_ACTION_DESTROY", ""),
	{
		Object: abi.UVERBS_OBJECT_FLOW_ACTION, ID: abi.UVERBS_METHOD_FLOW_ACTION_ESP_MODIFY, Name: "FLOW_ACTION_ESP_MODIFY",
		Attrs: []AttrSpec{
			obj(abi.UVERBS_ATTR_MODIFY_FLOW_ACTION_ESP_HANDLE, "handle", abi.UVERBS_OBJECT_FLOW_ACTION),
			optional(ptrIn[abi.UverbsFlowActionESP](abi.UVERBS_ATTR_FLOW_ACTION_ESP_ATTRS, "attrs")),
			optional(ptrIn[uint32](abi.UVERBS_ATTR_FLOW_ACTION_ESP_ESN, "esn")),
			optional(enumIn(abi.UVERBS_ATTR_FLOW_ACTION_ESP_KEYMAT, "keymat", keymats...)),
			optional(enumIn(abi.UVERBS_ATTR_FLOW_ACTION_ESP_REPLAY, "replay", replays...)),
			optional(ptrIn[abi.UverbsFlowActionESPEncap](abi.UVERBS_ATTR_FLOW_ACTION_ESP_ENCAP, "encap")),
		},
	},
}

// The forms of key material and of the protection against replays.
var (
	keymats = []reflect.Type{
		abi.IB_UVERBS_FLOW_ACTION_ESP_KEYMAT_AES_GCM: reflect.TypeFor[abi.UverbsFlowActionESPKeymatAESGCM](),
	}
	replays = []reflect.Type{
		abi.IB_UVERBS_FLOW_ACTION_ESP_REPLAY_NONE: nil,
		abi.IB_UVERBS_FLOW_ACTION_ESP_REPLAY_BMP:  reflect.TypeFor[abi.UverbsFlowActionESPReplayBmp](),
	}
)
