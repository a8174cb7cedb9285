// SPDX-License-Identifier: Apache-2.0

package abi

import "structs"

// rdma_user_cm.h: the commands of /dev/infiniband/rdma_cm.

// RDMA_USER_CM_ABI_VERSION is the version in /sys/class/misc/rdma_cm/abi_version. It has been 4
// since 2007, so it does not identify the newer commands of a kernel.
const RDMA_USER_CM_ABI_VERSION = 4

// RDMA_MAX_PRIVATE_DATA is the size of every private data field. Transports carry less.
const RDMA_MAX_PRIVATE_DATA = 256

// RDMA_USER_CM_IB_SERVICE_NAME_SIZE is the size of UcmIBService.ServiceName.
// Since Linux 7.3.
const RDMA_USER_CM_IB_SERVICE_NAME_SIZE = 64

// Commands, UcmCmdHdr.Cmd.
const (
	RDMA_USER_CM_CMD_CREATE_ID = iota
	RDMA_USER_CM_CMD_DESTROY_ID
	RDMA_USER_CM_CMD_BIND_IP
	RDMA_USER_CM_CMD_RESOLVE_IP
	RDMA_USER_CM_CMD_RESOLVE_ROUTE
	RDMA_USER_CM_CMD_QUERY_ROUTE
	RDMA_USER_CM_CMD_CONNECT
	RDMA_USER_CM_CMD_LISTEN
	RDMA_USER_CM_CMD_ACCEPT
	RDMA_USER_CM_CMD_REJECT
	RDMA_USER_CM_CMD_DISCONNECT
	RDMA_USER_CM_CMD_INIT_QP_ATTR
	RDMA_USER_CM_CMD_GET_EVENT
	RDMA_USER_CM_CMD_GET_OPTION
	RDMA_USER_CM_CMD_SET_OPTION
	RDMA_USER_CM_CMD_NOTIFY
	RDMA_USER_CM_CMD_JOIN_IP_MCAST
	RDMA_USER_CM_CMD_LEAVE_MCAST
	RDMA_USER_CM_CMD_MIGRATE_ID
	RDMA_USER_CM_CMD_QUERY
	RDMA_USER_CM_CMD_BIND
	RDMA_USER_CM_CMD_RESOLVE_ADDR
	RDMA_USER_CM_CMD_JOIN_MCAST
	RDMA_USER_CM_CMD_RESOLVE_IB_SERVICE // since Linux 7.3
	RDMA_USER_CM_CMD_WRITE_CM_EVENT     // since Linux 7.3
)

// enum rdma_ucm_port_space: IBTA annex A11, bytes 4 and 5 of the service ID.
const (
	RDMA_PS_IPOIB = 0x0002
	RDMA_PS_IB    = 0x013F
	RDMA_PS_TCP   = 0x0106
	RDMA_PS_UDP   = 0x0111
)

// UcmQuery.Option.
const (
	RDMA_USER_CM_QUERY_ADDR = iota
	RDMA_USER_CM_QUERY_PATH
	RDMA_USER_CM_QUERY_GID
	RDMA_USER_CM_QUERY_IB_SERVICE // since Linux 7.3
)

// UcmJoinMcast.JoinFlags.
const (
	RDMA_MC_JOIN_FLAG_FULLMEMBER = iota
	RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER
	RDMA_MC_JOIN_FLAG_RESERVED
)

// UcmSetOption.Level.
const (
	RDMA_OPTION_ID = 0
	RDMA_OPTION_IB = 1
)

// UcmSetOption.OptName.
const (
	RDMA_OPTION_ID_TOS         = 0
	RDMA_OPTION_ID_REUSEADDR   = 1
	RDMA_OPTION_ID_AFONLY      = 2
	RDMA_OPTION_ID_ACK_TIMEOUT = 3

	RDMA_OPTION_IB_PATH = 1
)

// UcmIBService.Flags. Since Linux 7.3.
const (
	RDMA_USER_CM_IB_SERVICE_FLAG_ID   = 1 << 0
	RDMA_USER_CM_IB_SERVICE_FLAG_NAME = 1 << 1
)

// enum rdma_cm_event_type (rdma_cma.h of librdmacm, rdma_cm.h of the kernel):
// UcmEventResp.Event. The ABI header does not name them.
const (
	RDMA_CM_EVENT_ADDR_RESOLVED = iota
	RDMA_CM_EVENT_ADDR_ERROR
	RDMA_CM_EVENT_ROUTE_RESOLVED
	RDMA_CM_EVENT_ROUTE_ERROR
	RDMA_CM_EVENT_CONNECT_REQUEST
	RDMA_CM_EVENT_CONNECT_RESPONSE
	RDMA_CM_EVENT_CONNECT_ERROR
	RDMA_CM_EVENT_UNREACHABLE
	RDMA_CM_EVENT_REJECTED
	RDMA_CM_EVENT_ESTABLISHED
	RDMA_CM_EVENT_DISCONNECTED
	RDMA_CM_EVENT_DEVICE_REMOVAL
	RDMA_CM_EVENT_MULTICAST_JOIN
	RDMA_CM_EVENT_MULTICAST_ERROR
	RDMA_CM_EVENT_ADDR_CHANGE
	RDMA_CM_EVENT_TIMEWAIT_EXIT
	RDMA_CM_EVENT_ADDRINFO_RESOLVED // since Linux 7.3
	RDMA_CM_EVENT_ADDRINFO_ERROR    // since Linux 7.3
	RDMA_CM_EVENT_USER              // since Linux 7.3; sent by WRITE_CM_EVENT
	RDMA_CM_EVENT_INTERNAL          // since Linux 7.3; sent by WRITE_CM_EVENT
)

// SockaddrStorage mirrors struct __kernel_sockaddr_storage (linux/socket.h). The
// first two bytes are the family in the byte order of the machine, ports and
// addresses are in network byte order.
type SockaddrStorage [128]byte

// SockaddrIn6 mirrors struct sockaddr_in6 (linux/in6.h). Its fields in other structs may hold a
// struct sockaddr_in instead.
type SockaddrIn6 [28]byte

// UcmCmdHdr mirrors struct rdma_ucm_cmd_hdr, what each write(2) starts with.
type UcmCmdHdr struct {
	_   structs.HostLayout
	Cmd uint32
	In  uint16 // bytes that follow the header
	Out uint16 // bytes that the response has room for
}

// UcmCreateID mirrors struct rdma_ucm_create_id.
type UcmCreateID struct {
	_        structs.HostLayout
	UID      uint64 // comes back in every event of the ID; 0 mutes it
	Response Pointer
	PS       uint16 // RDMA_PS_*
	QPType   uint8  // IB_QPT_*, read only for RDMA_PS_IB
	_        [5]uint8
}

// UcmCreateIDResp mirrors struct rdma_ucm_create_id_resp.
type UcmCreateIDResp struct {
	_  structs.HostLayout
	ID uint32
}

// UcmDestroyID mirrors struct rdma_ucm_destroy_id.
type UcmDestroyID struct {
	_        structs.HostLayout
	Response Pointer
	ID       uint32
	_        uint32
}

// UcmDestroyIDResp mirrors struct rdma_ucm_destroy_id_resp.
type UcmDestroyIDResp struct {
	_              structs.HostLayout
	EventsReported uint32 // events of this ID fetched so far, over its whole life
}

// UcmBindIP mirrors struct rdma_ucm_bind_ip, the request of RDMA_USER_CM_CMD_BIND_IP.
type UcmBindIP struct {
	_        structs.HostLayout
	Response Pointer
	Addr     SockaddrIn6
	ID       uint32
}

// UcmBind mirrors struct rdma_ucm_bind.
type UcmBind struct {
	_        structs.HostLayout
	ID       uint32
	AddrSize uint16
	_        uint16
	Addr     SockaddrStorage
}

// UcmResolveIP mirrors struct rdma_ucm_resolve_ip, the request of RDMA_USER_CM_CMD_RESOLVE_IP.
type UcmResolveIP struct {
	_         structs.HostLayout
	SrcAddr   SockaddrIn6
	DstAddr   SockaddrIn6
	ID        uint32
	TimeoutMS uint32
}

// UcmResolveAddr mirrors struct rdma_ucm_resolve_addr.
type UcmResolveAddr struct {
	_         structs.HostLayout
	ID        uint32
	TimeoutMS uint32
	SrcSize   uint16
	DstSize   uint16
	_         uint32
	SrcAddr   SockaddrStorage
	DstAddr   SockaddrStorage
}

// UcmResolveRoute mirrors struct rdma_ucm_resolve_route.
type UcmResolveRoute struct {
	_         structs.HostLayout
	ID        uint32
	TimeoutMS uint32
}

// UcmQuery mirrors struct rdma_ucm_query.
type UcmQuery struct {
	_        structs.HostLayout
	Response Pointer
	ID       uint32
	Option   uint32 // RDMA_USER_CM_QUERY_*
}

// UcmQueryRouteResp mirrors struct rdma_ucm_query_route_resp, the response to
// RDMA_USER_CM_CMD_QUERY_ROUTE.
type UcmQueryRouteResp struct {
	_          structs.HostLayout
	NodeGUID   uint64 // big-endian
	IBRoute    [2]IBUserPathRec
	SrcAddr    SockaddrIn6
	DstAddr    SockaddrIn6
	NumPaths   uint32
	PortNum    uint8
	_          [3]uint8
	IBDevIndex uint32
	_          uint32
}

// UcmQueryAddrResp mirrors struct rdma_ucm_query_addr_resp.
type UcmQueryAddrResp struct {
	_          structs.HostLayout
	NodeGUID   uint64 // big-endian
	PortNum    uint8  // 0 while the ID has no device
	_          uint8
	PKey       uint16
	SrcSize    uint16
	DstSize    uint16
	SrcAddr    SockaddrStorage
	DstAddr    SockaddrStorage
	IBDevIndex uint32
	_          uint32
}

// UcmQueryPathResp mirrors struct rdma_ucm_query_path_resp up to its flexible end, the response to
// RDMA_USER_CM_QUERY_PATH, which as many of [IBPathRecData] follow as there is room for.
type UcmQueryPathResp struct {
	_        structs.HostLayout
	NumPaths uint32
	_        uint32
}

// UcmQueryIBServiceResp mirrors struct rdma_ucm_query_ib_service_resp up to its flexible end, the
// response to RDMA_USER_CM_QUERY_IB_SERVICE, which as many of [IBUserServiceRec] follow as there is
// room for. Since Linux 7.3.
type UcmQueryIBServiceResp struct {
	_              structs.HostLayout
	NumServiceRecs uint32
	_              uint32
}

// UcmConnParam mirrors struct rdma_ucm_conn_param.
type UcmConnParam struct {
	_                  structs.HostLayout
	QPNum              uint32
	QKey               uint32
	PrivateData        [RDMA_MAX_PRIVATE_DATA]uint8
	PrivateDataLen     uint8
	SRQ                uint8
	ResponderResources uint8
	InitiatorDepth     uint8
	FlowControl        uint8
	RetryCount         uint8
	RNRRetryCount      uint8
	Valid              uint8
}

// UcmUDParam mirrors struct rdma_ucm_ud_param.
type UcmUDParam struct {
	_              structs.HostLayout
	QPNum          uint32
	QKey           uint32
	AHAttr         UverbsAHAttr
	PrivateData    [RDMA_MAX_PRIVATE_DATA]uint8
	PrivateDataLen uint8
	_              [7]uint8
}

// UcmECE mirrors struct rdma_ucm_ece, enhanced connection establishment.
type UcmECE struct {
	_        structs.HostLayout
	VendorID uint32
	AttrMod  uint32
}

// UcmConnect mirrors struct rdma_ucm_connect.
type UcmConnect struct {
	_         structs.HostLayout
	ConnParam UcmConnParam
	ID        uint32
	_         uint32
	ECE       UcmECE
}

// UcmListen mirrors struct rdma_ucm_listen.
type UcmListen struct {
	_       structs.HostLayout
	ID      uint32
	Backlog uint32
}

// UcmAccept mirrors struct rdma_ucm_accept.
type UcmAccept struct {
	_         structs.HostLayout
	UID       uint64
	ConnParam UcmConnParam
	ID        uint32
	_         uint32
	ECE       UcmECE
}

// UcmReject mirrors struct rdma_ucm_reject.
type UcmReject struct {
	_              structs.HostLayout
	ID             uint32
	PrivateDataLen uint8
	Reason         uint8
	_              [2]uint8
	PrivateData    [RDMA_MAX_PRIVATE_DATA]uint8
}

// UcmDisconnect mirrors struct rdma_ucm_disconnect.
type UcmDisconnect struct {
	_  structs.HostLayout
	ID uint32
}

// UcmInitQPAttr mirrors struct rdma_ucm_init_qp_attr. The response is an
// UverbsQPAttr.
type UcmInitQPAttr struct {
	_        structs.HostLayout
	Response Pointer
	ID       uint32
	QPState  uint32
}

// UcmNotify mirrors struct rdma_ucm_notify.
type UcmNotify struct {
	_     structs.HostLayout
	ID    uint32
	Event uint32 // an asynchronous event, IB_EVENT_*
}

// UcmJoinIPMcast mirrors struct rdma_ucm_join_ip_mcast, the request of
// RDMA_USER_CM_CMD_JOIN_IP_MCAST.
type UcmJoinIPMcast struct {
	_        structs.HostLayout
	Response Pointer
	UID      uint64
	Addr     SockaddrIn6
	ID       uint32
}

// UcmJoinMcast mirrors struct rdma_ucm_join_mcast, the request of RDMA_USER_CM_CMD_JOIN_MCAST.
type UcmJoinMcast struct {
	_         structs.HostLayout
	Response  Pointer
	UID       uint64
	ID        uint32
	AddrSize  uint16
	JoinFlags uint16 // RDMA_MC_JOIN_FLAG_*
	Addr      SockaddrStorage
}

// UcmGetEvent mirrors struct rdma_ucm_get_event.
type UcmGetEvent struct {
	_        structs.HostLayout
	Response Pointer
}

// UcmEventResp mirrors struct rdma_ucm_event_resp. Param is a union, which Conn and UD read. Its
// content depends on the type of the ID's QP and not on the event.
type UcmEventResp struct {
	_      structs.HostLayout
	UID    uint64
	ID     uint32
	Event  uint32 // RDMA_CM_EVENT_*
	Status uint32 // an int, a negative errno or a status of the transport
	Param  [304]uint8
	_      uint32
	ECE    UcmECE
}

// Conn returns Param as the param.conn of the C union: the memory of e, not a copy.
func (e *UcmEventResp) Conn() *UcmConnParam { return View[UcmConnParam](e.Param[:]) }

// UD returns Param as the param.ud of the C union.
func (e *UcmEventResp) UD() (p UcmUDParam) {
	copy(Bytes(&p), e.Param[:])
	return p
}

// Arg32 returns Param as the param.arg32 of the C union, the argument of an event
// that UcmWriteCMEvent sent. Since Linux 7.3.
func (e *UcmEventResp) Arg32() (p [2]uint32) {
	copy(Bytes(&p), e.Param[:])
	return p
}

// UcmSetOption mirrors struct rdma_ucm_set_option.
type UcmSetOption struct {
	_       structs.HostLayout
	OptVal  Pointer
	ID      uint32
	Level   uint32
	OptName uint32
	OptLen  uint32
}

// UcmMigrateID mirrors struct rdma_ucm_migrate_id.
type UcmMigrateID struct {
	_        structs.HostLayout
	Response Pointer
	ID       uint32
	FD       uint32 // the file that has the ID now. The command goes to the new one
}

// UcmMigrateResp mirrors struct rdma_ucm_migrate_resp.
type UcmMigrateResp struct {
	_              structs.HostLayout
	EventsReported uint32
}

// UcmIBService mirrors struct rdma_ucm_ib_service, the service to resolve, by its ID or its name.
// Since Linux 7.3.
type UcmIBService struct {
	_           structs.HostLayout
	ServiceID   uint64
	ServiceName [RDMA_USER_CM_IB_SERVICE_NAME_SIZE]uint8
	Flags       uint32
	_           uint32
}

// UcmResolveIBService mirrors struct rdma_ucm_resolve_ib_service, the request of
// RDMA_USER_CM_CMD_RESOLVE_IB_SERVICE. Since Linux 7.3.
type UcmResolveIBService struct {
	_   structs.HostLayout
	ID  uint32
	_   uint32
	IBS UcmIBService
}

// UcmWriteCMEvent mirrors struct rdma_ucm_write_cm_event, the request of
// RDMA_USER_CM_CMD_WRITE_CM_EVENT. Its union param is reached by Conn, UD and Arg. Since Linux 7.3.
type UcmWriteCMEvent struct {
	_      structs.HostLayout
	ID     uint32
	_      uint32
	Event  uint32 // RDMA_CM_EVENT_USER or RDMA_CM_EVENT_INTERNAL
	Status uint32
	Param  [38]uint64
}

// Conn returns param.conn.
func (e *UcmWriteCMEvent) Conn() *UcmConnParam { return member[UcmConnParam](&e.Param) }

// UD returns param.ud.
func (e *UcmWriteCMEvent) UD() *UcmUDParam { return member[UcmUDParam](&e.Param) }

// Arg returns param.arg, which the event then carries.
func (e *UcmWriteCMEvent) Arg() *uint64 { return member[uint64](&e.Param) }
