// SPDX-License-Identifier: Apache-2.0

package arch

// module is the path of the main module.
const module = "purerdma"

// rule lists the allowed imports of a package's files, except tests.
type rule struct {
	ours   []string // packages of this module, relative to it
	xsys   bool     // golang.org/x/sys
	others []string // packages of other modules
	unsafe []string // files that may import unsafe, "*" for all
}

// anywhere may be imported by every package except abi, which imports nothing.
const anywhere = "internal/leak"

// rules defines the architecture. Calls only go down, and siblings never import each other.
// Every package must be listed here or be in one of the trees below.
var rules = map[string]rule{
	"abi":               {unsafe: []string{"pointer.go", "pointer_32bit.go", "pointer_32bit_be.go", "pointer_64bit.go", "pointer_slice.go", "union.go"}},
	"internal/leak":     {},
	"internal/lograte":  {},
	"internal/clock":    {},
	"internal/ring":     {unsafe: []string{"*"}},
	"internal/mmio":     {unsafe: []string{"*"}},
	"internal/mem":      {xsys: true, unsafe: []string{"*"}},
	"internal/bridge":   {},
	"internal/cdev":     {ours: []string{"abi"}, xsys: true, unsafe: []string{"raw_linux.go"}},
	"internal/netns":    {xsys: true},
	"internal/trace":    {ours: []string{"abi"}, xsys: true},
	"internal/enum":     {},
	"internal/sockaddr": {ours: []string{"abi"}},
	"rdmanl":            {ours: []string{"abi", "internal/enum", "internal/sockaddr"}, xsys: true, others: []string{"github.com/vishvananda/netlink/nl"}},
	"ucma":              {ours: []string{"abi", "internal/cdev", "internal/sockaddr", "internal/trace"}},
	"uverbs": {ours: []string{"abi", "internal/cdev", "internal/mem", "internal/trace", "rdmanl"}, xsys: true,
		unsafe: []string{"request_unsafe_linux.go"}},
	"provider":                 {ours: []string{"abi", "internal/enum", "uverbs"}},
	"provider/internal/count":  {ours: []string{"provider"}},
	"provider/internal/dbrec":  {ours: []string{"internal/mem"}, unsafe: []string{"dbrec.go"}},
	"provider/internal/endian": {},
	"provider/internal/spin":   {},
	"provider/rxe":             {ours: []string{"abi", "uverbs", "provider", "provider/internal/count", "internal/ring"}},
	"provider/bnxt_re":         {ours: []string{"abi", "uverbs", "provider", "provider/internal/endian", "provider/internal/spin", "internal/lograte", "internal/mem", "internal/mmio"}, unsafe: []string{"*"}},
	"provider/erdma":           {ours: []string{"abi", "uverbs", "provider", "provider/internal/dbrec", "provider/internal/endian", "provider/internal/spin", "internal/lograte", "internal/mem", "internal/mmio"}, unsafe: []string{"*"}},
	"provider/siw":             {ours: []string{"abi", "uverbs", "provider", "provider/internal/count", "internal/ring"}},
	"provider/mlx5":            {ours: []string{"abi", "uverbs", "provider", "provider/internal/dbrec", "provider/internal/endian", "provider/internal/spin", "internal/lograte", "internal/mem", "internal/mmio"}, unsafe: []string{"*"}},
	"verbs": {ours: []string{"abi", "internal/bridge", "internal/cdev", "internal/clock", "internal/mem", "uverbs", "provider", "provider/bnxt_re", "provider/erdma", "provider/rxe", "provider/siw", "provider/mlx5"},
		unsafe: []string{"buffer.go"}},
	"verbs/mlx5dv": {ours: []string{"internal/bridge", "provider/mlx5", "verbs"}},
	"cm":           {ours: []string{"abi", "inflight", "internal/bridge", "internal/cdev", "internal/clock", "internal/lograte", "internal/mem", "internal/netns", "pool", "provider", "ucma", "verbs"}},

	"inflight": {ours: []string{"internal/bridge", "internal/cdev", "internal/clock", "internal/mem", "pool", "verbs"}},
	"oob":      {ours: []string{"verbs"}},
	"metrics":  {ours: []string{"cm", "verbs"}},
	"rsocket":  {ours: []string{"cm", "inflight", "internal/streamconn", "verbs"}},
	"msg":      {ours: []string{"abi", "cm", "inflight", "internal/acceptor", "internal/cdev", "internal/fifo", "internal/mem", "pool", "verbs"}},
	"stream":   {ours: []string{"cm", "inflight", "internal/fifo", "internal/streamconn", "pool", "verbs"}},
	"pool":     {ours: []string{"internal/bridge", "internal/cdev", "internal/mem", "verbs"}},

	"internal/acceptor":   {ours: []string{"cm", "internal/cdev", "internal/lograte"}},
	"internal/fifo":       {},
	"internal/streamconn": {ours: []string{"cm", "internal/acceptor", "verbs"}},

	// Helpers of tests.
	"internal/longtest": {},
	"internal/udmabuf":  {xsys: true, unsafe: []string{"udmabuf_linux.go"}},
	"internal/vmtest": {ours: []string{"internal/udmabuf", "rdmanl"}, xsys: true,
		others: []string{"github.com/vishvananda/netlink", "github.com/vishvananda/netlink/nl"}},
	"provider/providertest":                {ours: []string{"provider"}},
	"internal/streamconn/streamconntest":   {ours: []string{"cm", "cm/cmtest", "inflight", "internal/longtest", "internal/vmtest", "test/connectx/inprocess", "uverbs", "uverbs/uverbstest", "verbs"}},
	"internal/apptest":                     {ours: []string{"cm", "cm/cmtest", "internal/streamconn/streamconntest", "internal/vmtest", "stream"}},
	"cmd/internal/streamtest/transfertest": {ours: []string{"cm", "cm/cmtest", "cmd/internal/streamtest", "internal/streamconn/streamconntest", "rsocket"}},
	// A kernel in memory, for the project's tests and for users' tests.
	"internal/fakeuverbs":    {ours: []string{"abi", "internal/mem", "uverbs"}},
	"provider/mlx5/mlx5test": {ours: []string{"abi", "internal/fakeuverbs", "internal/mem", "test/connectx/prm", "uverbs"}},
	"cm/cmtest":              {ours: []string{"abi", "internal/cdev", "ucma", "uverbs", "verbs"}},
	"uverbs/uverbstest":      {ours: []string{"abi", "internal/fakeuverbs", "internal/mem", "internal/ring", "uverbs"}},

	// The micro-VM is a separate program. It shares nothing with the library.
	"cmd/rdmadoctor":             {ours: []string{"cmd/internal/tool", "cmd/internal/version", "rdmanl", "ucma", "uverbs", "verbs"}, xsys: true},
	"cmd/rdmahw":                 {ours: []string{"cmd/internal/hwcheck", "cmd/internal/hwjudge", "cmd/internal/tool", "cmd/internal/version", "internal/hwreport", "verbs"}},
	"cmd/internal/hwcheck":       {ours: []string{"abi", "cm", "cmd/internal/tool", "internal/hwreport", "internal/udmabuf", "msg", "oob", "stream", "ucma", "uverbs", "verbs", "verbs/mlx5dv"}, xsys: true},
	"cmd/internal/hwjudge":       {ours: []string{"abi", "internal/hwreport"}},
	"internal/hwreport":          {},
	"cmd/internal/tool/tooltest": {},
	"cmd/rdmavm":                 {ours: []string{"cmd/internal/version", "test/microvm/..."}, xsys: true},
	// A device model for the project's tests and for users' tests.
	"test/pci":                       {unsafe: []string{"word.go"}},
	"test/ethernet":                  {},
	"test/vfiouser":                  {ours: []string{"test/pci"}, xsys: true},
	"test/erdma":                     {ours: []string{"test/pci"}},
	"test/netxtreme":                 {ours: []string{"test/ethernet", "test/pci"}},
	"test/connectx":                  {ours: []string{"test/connectx/prm", "test/ethernet", "test/pci"}, unsafe: []string{"poll.go"}},
	"test/connectx/prm":              {},
	"test/connectx/cards":            {ours: []string{"test/connectx", "test/connectx/prm", "test/pci"}},
	"test/connectx/tracediff/halves": {ours: []string{"test/connectx/tracediff"}},
	"test/connectx/tracediff":        {ours: []string{"test/connectx/prm"}},
	"test/connectx/inprocess": {ours: []string{"abi", "internal/fakeuverbs", "provider/mlx5/mlx5test", "test/connectx", "test/connectx/prm", "uverbs"},
		unsafe: []string{"memory.go"}},
}

// trees contains the rules for all packages below a directory.
var trees = map[string]rule{
	"cmd":                 {ours: []string{"cm", "oob", "rsocket", "verbs", "uverbs", "ucma", "cmd/internal/addrinfo", "cmd/internal/tool", "cmd/internal/pingpong", "cmd/internal/streamtest", "cmd/internal/version"}},
	"examples":            {ours: []string{"cm", "inflight", "msg", "oob", "pool", "stream", "verbs", "examples/internal/..."}},
	"test":                {ours: []string{"cm", "verbs", "uverbs", "ucma", "provider", "abi", "internal/longtest", "internal/vmtest", "test/..."}, xsys: true},
	"test/documents":      {ours: []string{"internal/hwreport", "test/..."}},
	"test/bench":          {ours: []string{"cm", "inflight", "msg", "stream", "verbs", "internal/vmtest", "test/..."}, xsys: true},
	"test/bench/provider": {ours: []string{"cm", "cm/cmtest", "verbs", "uverbs", "provider", "provider/bnxt_re", "provider/erdma", "provider/mlx5", "provider/mlx5/mlx5test", "internal/fakeuverbs", "internal/mem", "abi", "test/..."}, xsys: true},
	"test/oracle/replay":  {ours: []string{"abi", "internal/longtest", "internal/mem", "provider", "uverbs", "test/..."}},
	"test/microvm":        {ours: []string{"test/microvm/...", "test/connectx/cards", "test/erdma", "test/netxtreme", "test/pci", "test/vfiouser"}, xsys: true, others: []string{"github.com/vishvananda/netlink", "github.com/vishvananda/netlink/nl"}},
}

// inTests lists the additional imports of tests.
var inTests = rule{
	ours:   []string{"abi", "internal/...", "ucma", "uverbs/...", "provider/...", "verbs", "verbs/mlx5dv", "cm", "cm/cmtest", "cmd/internal/streamtest/transfertest", "cmd/internal/tool/tooltest", "inflight", "msg", "oob", "pool", "rdmanl", "rsocket", "stream", "test/..."},
	xsys:   true,
	others: []string{"github.com/google/go-cmp/cmp", "github.com/google/go-cmp/cmp/cmpopts", "github.com/vishvananda/netlink", "github.com/vishvananda/netlink/nl"},
	unsafe: []string{"*"},
}
