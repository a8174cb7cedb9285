// SPDX-License-Identifier: Apache-2.0

package abi

import (
	"reflect"
	"testing"
)

// layout is a C struct as the compiler of a 64-bit machine lays it out: measured
// with sizeof and offsetof from the headers of Linux 6.1.
type layout struct {
	mirror  any
	c       string
	size    uintptr
	offsets map[string]uintptr // by the mirror's field; of every field
}

var verbsLayouts = []layout{
	{UverbsAttr{}, "ib_uverbs_attr", 16, map[string]uintptr{"AttrID": 0, "Len": 2, "Flags": 4, "ElemID": 6, "Reserved": 7, "Data": 8}},
	{UverbsIoctlHdr{}, "ib_uverbs_ioctl_hdr", 24, map[string]uintptr{"Length": 0, "ObjectID": 2, "MethodID": 4, "NumAttrs": 6, "Reserved1": 8, "DriverID": 16, "Reserved2": 20}},
	{UverbsAsyncEventDesc{}, "ib_uverbs_async_event_desc", 16, map[string]uintptr{"Element": 0, "EventType": 8, "Reserved": 12}},
	{UverbsCompEventDesc{}, "ib_uverbs_comp_event_desc", 8, map[string]uintptr{"CQHandle": 0}},
	{UverbsCQModerationCaps{}, "ib_uverbs_cq_moderation_caps", 8, map[string]uintptr{"MaxCQModerationCount": 0, "MaxCQModerationPeriod": 2, "Reserved": 4}},
	{UverbsCmdHdr{}, "ib_uverbs_cmd_hdr", 8, map[string]uintptr{"Command": 0, "InWords": 4, "OutWords": 6}},
	{UverbsQueryDevice{}, "ib_uverbs_query_device", 8, map[string]uintptr{"Response": 0}},
	{UverbsQueryDeviceResp{}, "ib_uverbs_query_device_resp", 176, map[string]uintptr{"FWVer": 0, "NodeGUID": 8, "SysImageGUID": 16, "MaxMRSize": 24, "PageSizeCap": 32, "VendorID": 40, "VendorPartID": 44, "HWVer": 48, "MaxQP": 52, "MaxQPWR": 56, "DeviceCapFlags": 60, "MaxSGE": 64, "MaxSGERd": 68, "MaxCQ": 72, "MaxCQE": 76, "MaxMR": 80, "MaxPD": 84, "MaxQPRdAtom": 88, "MaxEERdAtom": 92, "MaxResRdAtom": 96, "MaxQPInitRdAtom": 100, "MaxEEInitRdAtom": 104, "AtomicCap": 108, "MaxEE": 112, "MaxRDD": 116, "MaxMW": 120, "MaxRawIPv6QP": 124, "MaxRawEthyQP": 128, "MaxMcastGrp": 132, "MaxMcastQPAttach": 136, "MaxTotalMcastQPAttach": 140, "MaxAH": 144, "MaxFMR": 148, "MaxMapPerFMR": 152, "MaxSRQ": 156, "MaxSRQWR": 160, "MaxSRQSGE": 164, "MaxPKeys": 168, "LocalCAAckDelay": 170, "PhysPortCnt": 171, "Reserved": 172}},
	{UverbsQueryPortResp{}, "ib_uverbs_query_port_resp", 40, map[string]uintptr{"PortCapFlags": 0, "MaxMsgSz": 4, "BadPKeyCntr": 8, "QKeyViolCntr": 12, "GIDTblLen": 16, "PKeyTblLen": 20, "LID": 22, "SMLID": 24, "State": 26, "MaxMTU": 27, "ActiveMTU": 28, "LMC": 29, "MaxVLNum": 30, "SMSL": 31, "SubnetTimeout": 32, "InitTypeReply": 33, "ActiveWidth": 34, "ActiveSpeed": 35, "PhysState": 36, "LinkLayer": 37, "Flags": 38, "Reserved": 39}},
	{UverbsAllocPD{}, "ib_uverbs_alloc_pd", 8, map[string]uintptr{"Response": 0}},
	{UverbsAllocPDResp{}, "ib_uverbs_alloc_pd_resp", 4, map[string]uintptr{"PDHandle": 0}},
	{UverbsRegMR{}, "ib_uverbs_reg_mr", 40, map[string]uintptr{"Response": 0, "Start": 8, "Length": 16, "HCAVA": 24, "PDHandle": 32, "AccessFlags": 36}},
	{UverbsRegMRResp{}, "ib_uverbs_reg_mr_resp", 12, map[string]uintptr{"MRHandle": 0, "LKey": 4, "RKey": 8}},
	{UverbsCreateCompChannel{}, "ib_uverbs_create_comp_channel", 8, map[string]uintptr{"Response": 0}},
	{UverbsCreateCompChannelResp{}, "ib_uverbs_create_comp_channel_resp", 4, map[string]uintptr{"FD": 0}},
	{UverbsWC{}, "ib_uverbs_wc", 48, map[string]uintptr{"WRID": 0, "Status": 8, "Opcode": 12, "VendorErr": 16, "ByteLen": 20, "Ex": 24, "QPNum": 28, "SrcQP": 32, "WCFlags": 36, "PKeyIndex": 40, "SLID": 42, "SL": 44, "DLIDPathBits": 45, "PortNum": 46, "Reserved": 47}},
	{UverbsReqNotifyCQ{}, "ib_uverbs_req_notify_cq", 8, map[string]uintptr{"CQHandle": 0, "SolicitedOnly": 4}},
	{UverbsDestroyCQResp{}, "ib_uverbs_destroy_cq_resp", 8, map[string]uintptr{"CompEventsReported": 0, "AsyncEventsReported": 4}},
	{UverbsGlobalRoute{}, "ib_uverbs_global_route", 24, map[string]uintptr{"DGID": 0, "FlowLabel": 16, "SGIDIndex": 20, "HopLimit": 21, "TrafficClass": 22, "Reserved": 23}},
	{UverbsAHAttr{}, "ib_uverbs_ah_attr", 32, map[string]uintptr{"GRH": 0, "DLID": 24, "SL": 26, "SrcPathBits": 27, "StaticRate": 28, "IsGlobal": 29, "PortNum": 30, "Reserved": 31}},
	{UverbsQPAttr{}, "ib_uverbs_qp_attr", 144, map[string]uintptr{"QPAttrMask": 0, "QPState": 4, "CurQPState": 8, "PathMTU": 12, "PathMigState": 16, "QKey": 20, "RQPSN": 24, "SQPSN": 28, "DestQPNum": 32, "QPAccessFlags": 36, "AHAttr": 40, "AltAHAttr": 72, "MaxSendWR": 104, "MaxRecvWR": 108, "MaxSendSGE": 112, "MaxRecvSGE": 116, "MaxInlineData": 120, "PKeyIndex": 124, "AltPKeyIndex": 126, "EnSQDAsyncNotify": 128, "SQDraining": 129, "MaxRdAtomic": 130, "MaxDestRdAtomic": 131, "MinRNRTimer": 132, "PortNum": 133, "Timeout": 134, "RetryCnt": 135, "RNRRetry": 136, "AltPortNum": 137, "AltTimeout": 138, "Reserved": 139}},
	{UverbsQPDest{}, "ib_uverbs_qp_dest", 32, map[string]uintptr{"DGID": 0, "FlowLabel": 16, "DLID": 20, "Reserved": 22, "SGIDIndex": 24, "HopLimit": 25, "TrafficClass": 26, "SL": 27, "SrcPathBits": 28, "StaticRate": 29, "IsGlobal": 30, "PortNum": 31}},
	{UverbsQueryQP{}, "ib_uverbs_query_qp", 16, map[string]uintptr{"Response": 0, "QPHandle": 8, "AttrMask": 12}},
	{UverbsQueryQPResp{}, "ib_uverbs_query_qp_resp", 128, map[string]uintptr{"Dest": 0, "AltDest": 32, "MaxSendWR": 64, "MaxRecvWR": 68, "MaxSendSGE": 72, "MaxRecvSGE": 76, "MaxInlineData": 80, "QKey": 84, "RQPSN": 88, "SQPSN": 92, "DestQPNum": 96, "QPAccessFlags": 100, "PKeyIndex": 104, "AltPKeyIndex": 106, "QPState": 108, "CurQPState": 109, "PathMTU": 110, "PathMigState": 111, "SQDraining": 112, "MaxRdAtomic": 113, "MaxDestRdAtomic": 114, "MinRNRTimer": 115, "PortNum": 116, "Timeout": 117, "RetryCnt": 118, "RNRRetry": 119, "AltPortNum": 120, "AltTimeout": 121, "SQSigAll": 122, "Reserved": 123}},
	{UverbsModifyQP{}, "ib_uverbs_modify_qp", 112, map[string]uintptr{"Dest": 0, "AltDest": 32, "QPHandle": 64, "AttrMask": 68, "QKey": 72, "RQPSN": 76, "SQPSN": 80, "DestQPNum": 84, "QPAccessFlags": 88, "PKeyIndex": 92, "AltPKeyIndex": 94, "QPState": 96, "CurQPState": 97, "PathMTU": 98, "PathMigState": 99, "EnSQDAsyncNotify": 100, "MaxRdAtomic": 101, "MaxDestRdAtomic": 102, "MinRNRTimer": 103, "PortNum": 104, "Timeout": 105, "RetryCnt": 106, "RNRRetry": 107, "AltPortNum": 108, "AltTimeout": 109, "Reserved": 110}},
	{UverbsDestroyQPResp{}, "ib_uverbs_destroy_qp_resp", 4, map[string]uintptr{"EventsReported": 0}},
	{UverbsSendWR{}, "ib_uverbs_send_wr", 56, map[string]uintptr{"WRID": 0, "NumSGE": 8, "Opcode": 12, "SendFlags": 16, "Ex": 20, "WR": 24}},
	{UverbsSendWRAtomic{}, "ib_uverbs_send_wr.wr.atomic", 32, map[string]uintptr{"RemoteAddr": 0, "CompareAdd": 8, "Swap": 16, "RKey": 24, "Reserved": 28}},
	{UverbsPostSend{}, "ib_uverbs_post_send", 24, map[string]uintptr{"Response": 0, "QPHandle": 8, "WRCount": 12, "SGECount": 16, "WQESize": 20}},
	{UverbsPostSendResp{}, "ib_uverbs_post_send_resp", 4, map[string]uintptr{"BadWR": 0}},
	{UverbsQueryPortRespEx{}, "ib_uverbs_query_port_resp_ex", 48, map[string]uintptr{"LegacyResp": 0, "PortCapFlags2": 40, "Reserved": 42}},
	{UverbsQPCap{}, "ib_uverbs_qp_cap", 20, map[string]uintptr{"MaxSendWR": 0, "MaxRecvWR": 4, "MaxSendSGE": 8, "MaxRecvSGE": 12, "MaxInlineData": 16}},
	{UverbsGIDEntry{}, "ib_uverbs_gid_entry", 32, map[string]uintptr{"GID": 0, "GIDIndex": 16, "PortNum": 20, "GIDType": 24, "NetdevIfindex": 28}},
	{RxeSendWR{}, "rxe_send_wr", 144, map[string]uintptr{"WRID": 0, "Reserved": 8, "Opcode": 12, "SendFlags": 16, "Ex": 20, "WR": 24}},
	{RxeSendWRRDMA{}, "rxe_send_wr.wr.rdma", 16, map[string]uintptr{"RemoteAddr": 0, "RKey": 8, "Reserved": 12}},
	{RxeSendWRAtomic{}, "rxe_send_wr.wr.atomic", 32, map[string]uintptr{"RemoteAddr": 0, "CompareAdd": 8, "Swap": 16, "RKey": 24, "Reserved": 28}},
	{RxeSGE{}, "rxe_sge", 16, map[string]uintptr{"Addr": 0, "Length": 8, "LKey": 12}},
	{RxeMminfo{}, "mminfo", 16, map[string]uintptr{"Offset": 0, "Size": 8, "Pad": 12}},
	{RxeDMAInfo{}, "rxe_dma_info", 24, map[string]uintptr{"Length": 0, "Resid": 4, "CurSGE": 8, "NumSGE": 12, "SGEOffset": 16, "Reserved": 20}},
	{RxeSendWQE{}, "rxe_send_wqe", 208, map[string]uintptr{"WR": 0, "Status": 144, "State": 148, "IOVA": 152, "Mask": 160, "FirstPSN": 164, "LastPSN": 168, "AckLength": 172, "SSN": 176, "HasRdAtomic": 180, "DMA": 184}},
	{RxeRecvWQE{}, "rxe_recv_wqe", 40, map[string]uintptr{"WRID": 0, "Reserved": 8, "Padding": 12, "DMA": 16}},
	{RxeCreateCQResp{}, "rxe_create_cq_resp", 16, map[string]uintptr{"MI": 0}},
	{RxeCreateQPResp{}, "rxe_create_qp_resp", 32, map[string]uintptr{"RQMI": 0, "SQMI": 16}},
	{RxeQueueBuf{}, "rxe_queue_buf", 384, map[string]uintptr{"Log2ElemSize": 0, "IndexMask": 4, "Pad1": 8, "ProducerIndex": 128, "Pad2": 132, "ConsumerIndex": 256, "Pad3": 260}},
}

func TestVerbsLayouts(t *testing.T) {
	for _, l := range verbsLayouts {
		typ := reflect.TypeOf(l.mirror)
		if typ.Size() != l.size {
			t.Errorf("%s has %d bytes, struct %s has %d", typ.Name(), typ.Size(), l.c, l.size)
		}
		for _, f := range reflect.VisibleFields(typ) {
			if f.Name == "_" {
				continue
			}
			want, ok := l.offsets[f.Name]
			if !ok {
				t.Errorf("%s.%s has no measured offset in struct %s", typ.Name(), f.Name, l.c)
			} else if f.Offset != want {
				t.Errorf("%s.%s is at %d, in struct %s at %d", typ.Name(), f.Name, f.Offset, l.c, want)
			}
		}
	}
}
