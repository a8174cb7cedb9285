// SPDX-License-Identifier: Apache-2.0

package mirrors

import (
	"reflect"

	"purerdma/test/abi/golden"
)

// GrewIn lists the structs that have grown at their end, and the first kernel
// measured that has the whole. The mirror is the newest, and older kernels' are
// a prefix of it.
var GrewIn = map[string]string{
	"mlx5_ib_query_device_resp": "6.12", // reg_c0
}

// Later lists the structs of which a reserved part has got a meaning, the first
// kernel measured in which it has, and the fields.
var Later = map[string]struct {
	Kernel string
	Fields []string
}{
	"ib_uverbs_query_port_resp_ex": {"7.3", []string{"Reserved", "ActiveSpeedEx"}},
}

// Renamed lists structs that have another name in the newest kernel.
var Renamed = map[string]string{
	"mlx5_ib_clock_info": "ib_uverbs_clock_info",
}

// CName returns the name that the newest kernel has for a struct.
func CName(name string) string {
	if now, ok := Renamed[name]; ok {
		return now
	}
	return name
}

// Against compares a mirror with the struct of a kernel, given as "6.1", that
// may be older than the mirror.
func Against(kernel string, c *golden.Struct, typ reflect.Type) []string {
	if in, ok := GrewIn[c.Name]; ok && golden.Compare(kernel, in) < 0 && c.Size < int64(typ.Size()) {
		return ComparePrefix(c, typ)
	}
	if l, ok := Later[c.Name]; ok && golden.Compare(kernel, l.Kernel) < 0 {
		return Compare(c, typ, l.Fields)
	}
	return Compare(c, typ, nil)
}
