// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"purerdma/cmd/internal/tool"
	"purerdma/verbs"
)

// printer prints one device.
type printer struct {
	u       *tool.UI
	name    string
	only    uint8 // selected port, 0 for all
	verbose bool
	dev     *verbs.Device
}

func (p *printer) printf(format string, args ...any) { p.u.Printf(format, args...) }

// device prints the device and returns its exit status.
func (p *printer) device() (status int) {
	var err error
	if p.dev, err = verbs.DefaultHost().Open(p.name); err != nil {
		p.u.Errorf("Failed to open device\n")
		p.u.Fail(err)
		return statusOpen
	}
	defer func() {
		if err := p.dev.Close(); err != nil {
			p.u.Errorf("Failed to close device")
			p.u.Fail(err)
			status = statusClose
		}
	}()
	a := p.dev.Attr()
	if int(p.only) > a.Ports {
		p.u.Errorf("Invalid port requested for device\n")
		return statusNoPort
	}
	p.head(a)
	if p.verbose {
		p.limits(a)
		p.extended(a)
	}
	for port := 1; port <= a.Ports; port++ {
		if p.only != 0 && int(p.only) != port {
			continue
		}
		if err := p.port(uint8(port)); err != nil {
			p.u.Fail(err)
			return tool.Errno(err) & 0xff
		}
	}
	return 0
}

func (p *printer) head(a *verbs.DeviceAttr) {
	transport := "unspecified (-1)"
	switch p.dev.Transport() {
	case verbs.TransportIB:
		transport = "InfiniBand (0)"
	case verbs.TransportIWARP:
		transport = "iWARP (1)"
	}
	p.printf("hca_id:\t%s\n\ttransport:\t\t\t%s\n", p.name, transport)
	p.printf("\tfw_ver:\t\t\t\t%d.%d.%d\n", a.FWVersion>>32&0xffff, a.FWVersion>>16&0xffff, a.FWVersion&0xffff)
	p.printf("\tnode_guid:\t\t\t%s\n", guid(a.NodeGUID))
	p.printf("\tsys_image_guid:\t\t\t%s\n", guid(a.SysImageGUID))
	p.printf("\tvendor_id:\t\t\t0x%04x\n", a.VendorID)
	p.printf("\tvendor_part_id:\t\t\t%d\n", int32(a.VendorPartID))
	p.printf("\thw_ver:\t\t\t\t0x%X\n", a.HWVersion)
	// Only sysfs has it, and only for some devices.
	switch b, err := os.ReadFile(filepath.Join("/sys/class/infiniband", p.name, "board_id")); {
	case err == nil:
		p.printf("\tboard_id:\t\t\t%s\n", strings.TrimSuffix(string(b), "\n"))
	case !errors.Is(err, fs.ErrNotExist):
		p.u.Fail(err)
	}
	p.printf("\tphys_port_cnt:\t\t\t%d\n", a.Ports)
}

func guid(g uint64) string {
	return fmt.Sprintf("%04x:%04x:%04x:%04x", g>>48, g>>32&0xffff, g>>16&0xffff, g&0xffff)
}

// row prints a line "\tname:TABS value" with enough tabs to start the value at column 40.
func (p *printer) row(name string, value any) {
	p.printf("\t%s:%s%v\n", name, strings.Repeat("\t", max(1, 4-(len(name)+1)/8)), value)
}

func (p *printer) limits(a *verbs.DeviceAttr) {
	p.row("max_mr_size", fmt.Sprintf("0x%x", a.MaxMRSize))
	p.row("page_size_cap", fmt.Sprintf("0x%x", a.PageSizes))
	p.row("max_qp", a.MaxQP)
	p.row("max_qp_wr", a.MaxQPWR)
	p.row("device_cap_flags", fmt.Sprintf("0x%08x", uint32(a.CapFlags)))
	p.bits(uint64(uint32(a.CapFlags)), deviceCaps)
	p.row("max_sge", a.MaxSGE)
	p.row("max_sge_rd", a.MaxSGERd)
	p.row("max_cq", a.MaxCQ)
	p.row("max_cqe", a.MaxCQE)
	p.row("max_mr", a.MaxMR)
	p.row("max_pd", a.MaxPD)
	p.row("max_qp_rd_atom", a.MaxQPRdAtom)
	p.row("max_ee_rd_atom", a.MaxEERdAtom)
	p.row("max_res_rd_atom", a.MaxResRdAtom)
	p.row("max_qp_init_rd_atom", a.MaxQPInitRdAtom)
	p.row("max_ee_init_rd_atom", a.MaxEEInitRdAtom)
	p.row("atomic_cap", word(atomicCaps, a.AtomicCap, "invalid atomic capability"))
	p.row("max_ee", a.MaxEE)
	p.row("max_rdd", a.MaxRDD)
	p.row("max_mw", a.MaxMW)
	p.row("max_raw_ipv6_qp", a.MaxRawIPv6QP)
	p.row("max_raw_ethy_qp", a.MaxRawEthyQP)
	p.row("max_mcast_grp", a.MaxMcastGroups)
	p.row("max_mcast_qp_attach", a.MaxMcastQPs)
	p.row("max_total_mcast_qp_attach", a.MaxTotalMcastQPs)
	p.row("max_ah", a.MaxAH)
	p.row("max_fmr", a.MaxFMR)
	if a.MaxFMR != 0 {
		p.row("max_map_per_fmr", a.MaxMapPerFMR)
	}
	p.row("max_srq", a.MaxSRQ)
	if a.MaxSRQ != 0 {
		p.row("max_srq_wr", a.MaxSRQWR)
		p.row("max_srq_sge", a.MaxSRQSGE)
	}
	p.row("max_pkeys", a.MaxPKeys)
	p.row("local_ca_ack_delay", a.LocalCAAckDelay)
}

// bits prints the names of the set bits, and the remaining bits.
func (p *printer) bits(mask uint64, names []bit) {
	const indent = "\t\t\t\t\t"
	for _, b := range names {
		if mask&b.bit != 0 {
			p.printf(indent+"%s\n", b.name)
		}
		mask &^= b.bit
	}
	if mask != 0 {
		p.printf(indent+"Unknown flags: 0x%X\n", mask)
	}
}

func (p *printer) odp(name string, caps uint32) {
	p.printf("\t%s:\n", name)
	if caps == 0 {
		p.printf("\t\t\t\t\tNO SUPPORT\n")
	}
	p.bits(uint64(caps), odpCaps)
}

func (p *printer) extended(a *verbs.DeviceAttr) {
	p.printf("\tgeneral_odp_caps:\n")
	if a.ODP.Supported {
		p.printf("\t\t\t\t\tODP_SUPPORT\n")
	}
	if a.ODP.Implicit {
		p.printf("\t\t\t\t\tODP_SUPPORT_IMPLICIT\n")
	}
	p.odp("rc_odp_caps", a.ODP.RC)
	p.odp("uc_odp_caps", a.ODP.UC)
	p.odp("ud_odp_caps", a.ODP.UD)
	p.odp("xrc_odp_caps", a.ODP.XRC)
	if a.TimestampMask != 0 {
		p.printf("\tcompletion timestamp_mask:\t\t\t0x%016x\n", a.TimestampMask)
	} else {
		p.printf("\tcompletion_timestamp_mask not supported\n")
	}
	if a.CoreClock != 0 {
		p.printf("\thca_core_clock:\t\t\t%dkHZ\n", a.CoreClock)
	} else {
		p.printf("\tcore clock not supported\n")
	}
	if a.RawPacketCaps != 0 {
		p.printf("\traw packet caps:\n")
		for _, b := range rawCaps {
			if uint64(a.RawPacketCaps)&b.bit != 0 {
				p.bits(b.bit, rawCaps)
			}
		}
	}
	p.printf("\tdevice_cap_flags_ex:\t\t0x%X\n", a.CapFlags)
	p.bits(a.CapFlags&^0xffffffff, deviceCapsEx)
	p.printf("\ttso_caps:\n\t\tmax_tso:\t\t\t%d\n", a.Packets.MaxTSO)
	if a.Packets.MaxTSO != 0 {
		p.qpTypes(a.Packets.TSOQPTypes, packetTypes)
	}
	p.rss(a)
	p.printf("\tmax_wq_type_rq:\t\t\t%d\n", a.MaxWQ)
	p.printf("\tpacket_pacing_caps:\n\t\tqp_rate_limit_min:\t%dkbps\n\t\tqp_rate_limit_max:\t%dkbps\n", a.Packets.RateMin, a.Packets.RateMax)
	if a.Packets.RateMax != 0 {
		p.qpTypes(a.Packets.RateQPTypes, rateTypes)
	}
	if tm := &a.TagMatching; tm.MaxTags != 0 {
		p.row("max_rndv_hdr_size", tm.MaxRndvHdrSize)
		p.row("max_num_tags", tm.MaxTags)
		p.row("max_ops", tm.MaxOps)
		p.row("max_sge", tm.MaxSGE)
		p.printf("\tflags:\n")
		p.bits(uint64(tm.Flags&1), []bit{{1, "IBV_TM_CAP_RC"}})
	} else {
		p.printf("\ttag matching not supported\n")
	}
	if a.MaxCQCount != 0 && a.MaxCQPeriod != 0 {
		p.printf("\n\tcq moderation caps:\n\t\tmax_cq_count:\t%d\n\t\tmax_cq_period:\t%d us\n\n", a.MaxCQCount, a.MaxCQPeriod.Microseconds())
	}
	if a.MaxDMSize != 0 {
		p.printf("\tmaximum available device memory:\t%dBytes\n\n", a.MaxDMSize)
	}
	p.printf("\tnum_comp_vectors:\t\t%d\n", a.CompVectors)
}

func (p *printer) rss(a *verbs.DeviceAttr) {
	p.printf("\trss_caps:\n\t\tmax_rwq_indirection_tables:\t\t\t%d\n\t\tmax_rwq_indirection_table_size:\t\t\t%d\n", a.RSS.MaxTables, a.RSS.MaxTableSize)
	p.printf("\t\trx_hash_function:\t\t\t\t0x%x\n\t\trx_hash_fields_mask:\t\t\t\t0x%X\n", a.Packets.HashFunctions, a.Packets.HashFields)
	if a.RSS.QPTypes != 0 {
		p.qpTypes(a.RSS.QPTypes, packetTypes)
	}
}

// qpTypes prints the types of QPs that support a feature.
func (p *printer) qpTypes(mask uint32, names []bit) {
	p.printf("\t\tsupported_qp:\n")
	p.bits(uint64(mask), names)
}
