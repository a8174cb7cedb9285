// SPDX-License-Identifier: Apache-2.0

// Package golden reads and writes the files of abi/testdata. Each file has the structs and constants of one
// kernel's RDMA headers, as compiled by a C compiler.
//
// A file consists of lines of words. The first line names the package of the headers, and the machines that
// they were compiled for. The results are equal for all machines.
//
//	linux-libc-dev 6.1.192-2 amd64 arm64
//	header rdma/rdma_user_cm.h
//	define RDMA_USER_CM_ABI_VERSION 4
//	enum rdma_ucm_port_space            (- without a name)
//		RDMA_PS_IPOIB 2
//	struct rdma_ucm_event_resp 336
//		uid 0 8 __aligned_u64           (offset, size, type)
//		param 20 304 union
//			conn 20 272 struct rdma_ucm_conn_param
//	macro RDMA_NL_GET_TYPE(client,op)   (has no value)
//
// Offsets count from the start of the outermost struct. The members of an unnamed struct or union follow it,
// indented by one more step.
package golden

import (
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Package is the Debian package of the headers.
const Package = "linux-libc-dev"

// Headers lists the headers that package abi mirrors.
var Headers = []string{
	"rdma/rdma_user_cm.h",
	"rdma/ib_user_sa.h",
	"rdma/ib_user_verbs.h",
	"rdma/ib_user_ioctl_cmds.h",
	"rdma/ib_user_ioctl_verbs.h",
	"rdma/rdma_user_ioctl.h",
	"rdma/rdma_user_ioctl_cmds.h",
	"rdma/rdma_user_rxe.h",
	"rdma/siw-abi.h",
	"rdma/erdma-abi.h",
	"rdma/bnxt_re-abi.h",
	"rdma/mlx5-abi.h",
	"rdma/mlx5_user_ioctl_cmds.h",
	"rdma/mlx5_user_ioctl_verbs.h",
	"rdma/rdma_netlink.h",
}

// A File is the content of one golden file.
type File struct {
	Version string   // version of the package
	Arches  []string // Debian's names of the machines
	Headers []*Header
}

// Kernel returns the series of the kernel, such as "6.1".
func (f *File) Kernel() string {
	parts := strings.SplitN(f.Version, ".", 3)
	return strings.Join(parts[:min(2, len(parts))], ".")
}

// Name returns the base name of the file.
func (f *File) Name() string { return FileName(f.Version) }

// FileName returns the base name of the golden file of a version.
func FileName(version string) string { return Package + "_" + version + ".txt" }

// A Header has the definitions in one header, each kind in the order of the lines.
type Header struct {
	Name    string
	Defines []Const
	Enums   []Enum
	Structs []*Struct
	Macros  []string // macros without a value, which have parameters or are no integers
}

// A Const is an object-like macro or an enumerator.
type Const struct {
	Name  string
	Value *big.Int
}

// An Enum is a C enum. Name may be empty.
type Enum struct {
	Name   string
	Consts []Const
}

// A Struct is a C struct or union with a name.
type Struct struct {
	Name    string
	Union   bool
	Size    int64
	Members []Member // empty if the struct is in a header that is not mirrored
}

// A Member is one member of a struct. Name may be empty.
type Member struct {
	Name    string
	Offset  int64
	Size    int64
	Type    string   // "struct" or "union" if it has Members
	Members []Member // members of an unnamed struct or union
}

// Struct returns the struct called name, or nil.
func (f *File) Struct(name string) *Struct {
	for _, h := range f.Headers {
		for _, s := range h.Structs {
			if s.Name == name {
				return s
			}
		}
	}
	return nil
}

// Inner returns the unnamed struct at a path of names, such as "x.wr.rdma" for a member of x. The offsets
// count from the start of the returned struct.
func (f *File) Inner(path string) *Struct {
	name, rest, inner := strings.Cut(path, ".")
	s := f.Struct(name)
	if s == nil || !inner {
		return s
	}
	in := Member{Members: s.Members}
	for elem := range strings.SplitSeq(rest, ".") {
		i := slices.IndexFunc(in.Members, func(m Member) bool { return m.Label() == elem })
		if i < 0 {
			return nil
		}
		in = in.Members[i]
	}
	if in.Members == nil {
		return nil
	}
	return &Struct{Name: path, Union: in.Type == "union", Size: in.Size, Members: shift(in.Members, -in.Offset)}
}

// Label returns the name of the member in a path. An unnamed member has the label @ and its offset.
func (m Member) Label() string {
	if m.Name == "" {
		return "@" + strconv.FormatInt(m.Offset, 10)
	}
	return m.Name
}

func shift(ms []Member, by int64) []Member {
	out := slices.Clone(ms)
	for i := range out {
		out[i].Offset += by
		out[i].Members = shift(out[i].Members, by)
	}
	return out
}

// Text returns the text of the file.
func (f *File) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s %s\n", Package, f.Version, strings.Join(f.Arches, " "))
	f.headers(&b)
	return b.String()
}

// SameHeaders reports whether two files have equal headers. Their versions may differ.
func (f *File) SameHeaders(g *File) bool {
	var a, b strings.Builder
	f.headers(&a)
	g.headers(&b)
	return a.String() == b.String()
}

func (f *File) headers(b *strings.Builder) {
	for _, h := range f.Headers {
		fmt.Fprintf(b, "header %s\n", h.Name)
		for _, c := range h.Defines {
			fmt.Fprintf(b, "define %s %d\n", c.Name, c.Value)
		}
		for _, m := range h.Macros {
			fmt.Fprintf(b, "macro %s\n", m)
		}
		for _, e := range h.Enums {
			fmt.Fprintf(b, "enum %s\n", orDash(e.Name))
			for _, c := range e.Consts {
				fmt.Fprintf(b, "\t%s %d\n", c.Name, c.Value)
			}
		}
		for _, s := range h.Structs {
			fmt.Fprintf(b, "%s %s %d\n", kind(s.Union), s.Name, s.Size)
			writeMembers(b, s.Members, "\t")
		}
	}
}

func orDash(name string) string {
	if name == "" {
		return "-"
	}
	return name
}

func kind(union bool) string {
	if union {
		return "union"
	}
	return "struct"
}

func writeMembers(b *strings.Builder, ms []Member, indent string) {
	for _, m := range ms {
		fmt.Fprintf(b, "%s%s %d %d %s\n", indent, orDash(m.Name), m.Offset, m.Size, m.Type)
		writeMembers(b, m.Members, indent+"\t")
	}
}

// ReadDir reads all golden files of dir, the oldest kernel first.
func ReadDir(dir string) ([]*File, error) {
	names, err := filepath.Glob(filepath.Join(dir, FileName("*")))
	if err != nil {
		return nil, err
	}
	var files []*File
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		f, err := Parse(string(b))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if f.Name() != filepath.Base(name) {
			return nil, fmt.Errorf("%s holds version %s", name, f.Version)
		}
		files = append(files, f)
	}
	slices.SortFunc(files, func(a, b *File) int { return Compare(a.Version, b.Version) })
	return files, nil
}

// Compare compares the versions of two kernels by their numbers.
func Compare(a, b string) int {
	return slices.Compare(numbers(a), numbers(b))
}

func numbers(s string) []int {
	var out []int
	for _, f := range strings.FieldsFunc(s, func(r rune) bool { return r < '0' || r > '9' }) {
		n, _ := strconv.Atoi(f)
		out = append(out, n)
	}
	return out
}
