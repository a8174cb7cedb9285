// SPDX-License-Identifier: Apache-2.0

// Package vector reads the files of test/oracle. They record how a provider of rdma-core used the memory that it
// shares with the kernel and the device. README.md of test/oracle has the format and the names of the members.
package vector

import (
	"encoding/hex"
	"encoding/json"
	"strconv"
)

// Format is the version of the format.
const Format = 1

// Data is the address of the memory in work requests, and DataLen its length.
const (
	Data    = 0x600000000000
	DataLen = 1 << 20
)

// DataByte returns the initial byte at Data + i.
func DataByte(i uint64) byte { return byte(i*7+i>>8) | 1 }

// Poison fills slots before a provider writes to them. UARPoison fills the pages of doorbell registers.
const (
	Poison    = 0xcc
	UARPoison = 0xee
)

// File is a file of vectors.
type File struct {
	Head     *Record
	Sessions []*Session
}

// Session has the records of one open device. The first record has the type "open".
type Session struct{ Records []*Record }

// Record is one line. Type determines the valid members.
type Record struct {
	Line int `json:"-"`

	Type string `json:"t"`
	Name string `json:"name"`
	// Kernel has the commands to the kernel since the previous record, with the kernel's responses.
	Kernel []*Call `json:"kernel"`

	// file
	Format   int    `json:"format"`
	Driver   string `json:"driver"`
	RDMACore string `json:"rdma_core"`
	Seed     uint64 `json:"seed"`
	N        int    `json:"n"`      // also the result of poll
	Device   string `json:"device"` // of a recording
	Lost     uint64 `json:"lost"`   // operations before a recording

	// open
	Env map[string]string `json:"env"`

	// objects, with the requested parameters and the results
	ID   string `json:"id"`
	RC   int    `json:"rc"` // errno, 0 for success
	Got  int    `json:"got"`
	QPN  uint32 `json:"qpn"`
	LKey uint32 `json:"lkey"`
	RKey uint32 `json:"rkey"`

	Addr   uint64          `json:"addr"`
	Len    uint64          `json:"len"`
	Access uint32          `json:"access"`
	Kind   json.RawMessage `json:"type"` // type of a QP (a string) or a window (a number)

	CQE      int    `json:"cqe"`
	Ex       int    `json:"ex"`
	WCFlags  uint64 `json:"wc_flags"`
	CQESize  int    `json:"cqe_size"`
	Compress int    `json:"compress"`

	WR     int    `json:"wr"`
	SGE    int    `json:"sge"`
	GotWR  int    `json:"got_wr"`
	GotSGE int    `json:"got_sge"`
	XRCD   string `json:"xrcd"`
	SRQN   uint32 `json:"srqn"`

	SCQ       string `json:"scq"`
	RCQ       string `json:"rcq"`
	SRQ       string `json:"srq"`
	Cap       []int  `json:"cap"` // send WRs, receive WRs, send SGEs, receive SGEs, inline bytes
	GotCap    []int  `json:"got_cap"`
	BF        int    `json:"bf"` // bytes of a half of the register
	SigAll    int    `json:"sig_all"`
	TSOHeader int    `json:"tso_header"`
	DVFlags   uint32 `json:"dv_flags"`
	DCTKey    uint64 `json:"dct_key"`

	State string `json:"state"`
	Mask  uint32 `json:"mask"`
	MTU   uint8  `json:"mtu"` // enum ibv_mtu
	PSN   uint32 `json:"psn"` // of sends

	Vendor  uint32 `json:"vendor"`
	Options uint32 `json:"options"`

	Global   int    `json:"global"`
	DGID     Hex    `json:"dgid"`
	Flow     uint32 `json:"flow"`
	SGID     uint8  `json:"sgid"`
	Hop      uint8  `json:"hop"`
	TClass   uint8  `json:"tclass"`
	DLID     uint16 `json:"dlid"`
	SL       uint8  `json:"sl"`
	PathBits uint8  `json:"path_bits"`
	Rate     uint8  `json:"rate"`
	Port     uint8  `json:"port"`

	// the data path
	QP       string `json:"qp"`
	On       string `json:"on"` // QP or SRQ
	CQ       string `json:"cq"`
	MW       string `json:"mw"`
	WRID     uint64 `json:"wr_id"`
	API      string `json:"api"`
	DC       *DC    `json:"dc"`
	WRs      []*WR  `json:"wrs"`
	Bad      int    `json:"bad"`
	Free     int    `json:"free"`
	At       uint32 `json:"at"`
	DB       uint32 `json:"db"`
	DBRecord Hex    `json:"record"` // erdma
	// rxe, siw
	Bells int    `json:"bells"` // doorbells rung
	Take  uint32 `json:"take"`  // slots that the device takes afterwards
	WQE   Hex    `json:"wqe"`

	Slots     json.RawMessage `json:"slots"` // number of slots in send, bytes of the slots in recv
	UAR       []*Store        `json:"uar"`
	Stores    []*Store        `json:"stores"`
	List      json.RawMessage `json:"list"` // slots of an SRQ in recv, requests in a list in many
	Count     uint64          `json:"count"`
	MLXOpcode uint8           `json:"mlx_opcode"`
	CQEs      []*CQE          `json:"cqes"`
	Max       int             `json:"max"`
	WCs       []*WC           `json:"wcs"`
	CI        uint32          `json:"ci"`
	Mem       *Mem            `json:"mem"`
	Solicited int             `json:"solicited"`
	Arm       uint32          `json:"arm"`
	Flags     uint32          `json:"flags"`
}

// Call is a command to the kernel, or a mapping.
type Call struct {
	Object uint16            `json:"o"`
	Method uint16            `json:"m"`
	Write  *uint32           `json:"w"` // the command inside INVOKE_WRITE
	RC     int               `json:"rc"`
	In     map[string]Hex    `json:"in"`
	Out    map[string]Hex    `json:"out"`
	New    map[string]uint64 `json:"new"`

	Mmap *uint64 `json:"mmap"` // offset of a mapping
	Len  uint64  `json:"len"`

	Written *uint32 `json:"write"` // command by write(2)
	Bytes   Hex     `json:"bytes"`
}

// WR is a work request.
type WR struct {
	ID      uint64      `json:"id"`
	Op      string      `json:"op"`
	Opcode  int         `json:"opcode"` // enum ibv_wr_opcode
	Flags   uint32      `json:"flags"`  // enum ibv_send_flags
	Imm     uint32      `json:"imm"`
	Inv     uint32      `json:"inv"`
	RAddr   uint64      `json:"raddr"`
	RKey    uint32      `json:"rkey"`
	Cmp     uint64      `json:"cmp"`
	Swap    uint64      `json:"swap"`
	AH      string      `json:"ah"`
	RQPN    uint32      `json:"rqpn"`
	QKey    uint32      `json:"qkey"`
	XRCSRQN uint32      `json:"xrc_srqn"`
	Bind    *Bind       `json:"bind"`
	Hdr     Hex         `json:"hdr"`
	MSS     uint32      `json:"mss"`
	SGE     [][3]uint64 `json:"sge"` // address, length, lkey
}

// Bind has the parameters of a bind of a window.
type Bind struct {
	MW     uint32 `json:"mw"`
	RKey   uint32 `json:"rkey"`
	LKey   uint32 `json:"lkey"`
	Addr   uint64 `json:"addr"`
	Len    uint64 `json:"len"`
	Access uint32 `json:"access"`
}

// DC is the address of a DC request.
type DC struct {
	AH   string `json:"ah"`
	DCTN uint32 `json:"dctn"`
	Key  uint64 `json:"key"`
}

// Store has bytes that were written to a page of doorbell registers, or with DB to the QP's doorbell record.
type Store struct {
	Mmap  uint64 `json:"mmap"`
	At    uint32 `json:"at"`
	DB    *int   `json:"db"`
	Bytes Hex    `json:"bytes"`
}

// Slot is a slot of an SRQ.
type Slot struct {
	Slot  uint32 `json:"slot"`
	Bytes Hex    `json:"bytes"`
}

// CQE is an entry that the device added to a CQ.
type CQE struct {
	Of    string `json:"of"`
	Slot  uint32 `json:"slot"`
	Bytes Hex    `json:"bytes"`
}

// WC is a completion. The library did not write the nil members.
type WC struct {
	ID        *uint64 `json:"id"`
	Status    *uint64 `json:"status"`
	Opcode    *uint64 `json:"opcode"`
	VendorErr *uint64 `json:"vendor_err"`
	ByteLen   *uint64 `json:"byte_len"`
	QPN       *uint64 `json:"qpn"`
	SrcQP     *uint64 `json:"src_qp"`
	Flags     *uint64 `json:"flags"`
	PKeyIndex *uint64 `json:"pkey_index"`
	SLID      *uint64 `json:"slid"`
	SL        *uint64 `json:"sl"`
	PathBits  *uint64 `json:"path_bits"`
	Imm       *uint64 `json:"imm"`
	Inv       *uint64 `json:"inv"`
	TS        *uint64 `json:"ts"`
	CVLAN     *uint64 `json:"cvlan"`
	FlowTag   *uint64 `json:"flow_tag"`
}

// Mem has the content of a piece of memory after a poll.
type Mem struct {
	Addr  uint64 `json:"addr"`
	Bytes Hex    `json:"bytes"`
}

// Hex is a string of bytes in hexadecimal digits.
type Hex []byte

// UnmarshalText decodes the digits.
func (h *Hex) UnmarshalText(text []byte) error {
	*h = make([]byte, hex.DecodedLen(len(text)))
	_, err := hex.Decode(*h, text)
	return err
}

// Attr returns the attribute with an id.
func Attr[T any](m map[string]T, id uint16) (T, bool) {
	v, ok := m[strconv.Itoa(int(id))]
	return v, ok
}
