// SPDX-License-Identifier: Apache-2.0

package mirrors

import (
	"reflect"

	"purerdma/test/abi/golden"
)

// GrewIn lists the structs that have grown at their end, with the first measured kernel that has the whole
// struct. The mirror has the newest form, and the structs of older kernels are prefixes of it.
var GrewIn = map[string]string{
	"mlx5_ib_query_device_resp": "6.12", // reg_c0
	"bnxt_re_cq_req":            "7.3",  // comp_mask
	"bnxt_re_cq_resp":           "6.12", // comp_mask
	"bnxt_re_qp_req":            "6.12", // comp_mask, sq_slots
	"bnxt_re_srq_resp":          "6.12", // comp_mask
}

// Later lists the structs with a reserved part or padding that later got a meaning. It has the first measured kernel with
// that meaning, and the fields.
var Later = map[string]struct {
	Kernel string
	Fields []string
}{
	"ib_uverbs_query_port_resp_ex": {"7.3", []string{"Reserved", "ActiveSpeedEx"}},
	"bnxt_re_qp_req":               {"7.3", []string{"SQNPSN"}},
}

// Renamed lists structs with a different name in the newest kernel.
var Renamed = map[string]string{
	"mlx5_ib_clock_info": "ib_uverbs_clock_info",
}

// CName returns the name of a struct in the newest kernel.
func CName(name string) string {
	if now, ok := Renamed[name]; ok {
		return now
	}
	return name
}

// Against compares a mirror with the struct of a kernel, such as "6.1". The kernel may be older than the mirror.
func Against(kernel string, c *golden.Struct, typ reflect.Type) []string {
	if in, ok := GrewIn[c.Name]; ok && golden.Compare(kernel, in) < 0 && c.Size < int64(typ.Size()) {
		return ComparePrefix(c, typ)
	}
	if l, ok := Later[c.Name]; ok && golden.Compare(kernel, l.Kernel) < 0 {
		return Compare(c, typ, l.Fields)
	}
	return Compare(c, typ, nil)
}
