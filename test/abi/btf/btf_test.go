// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package btf compares the mirrors of package abi with the types of the running kernel and of its loaded
// modules. The kernel exports these types in /sys/kernel/btf.
//
//	go -C test/abi/btf test -c -o btf.test
//	rdmavm -hosts 2 -- ./btf.test -test.v -modules ~/.cache/rdmavm/kernel
package btf

import (
	"bytes"
	"debug/elf"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"

	"purerdma/test/abi/golden"
	"purerdma/test/abi/mirrors"
	"purerdma/test/abi/source"
)

var modules = flag.String("modules", "", "`directory` below which to look for RDMA drivers of the running kernel that are not loaded")

// The minimum numbers of found types, so that the tests cannot pass without a comparison. They are for the
// modules that every machine with RDMA loads. -modules adds mlx5_ib without its hardware.
const (
	leastStructs     = 170
	leastConsts      = 600
	leastMlx5Structs = 30
)

const dir = "/sys/kernel/btf"

// release returns the release of the running kernel, as uname -r.
func release(t *testing.T) string {
	t.Helper()
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		t.Fatalf("unix.Uname: %v", err)
	}
	return unix.ByteSliceToString(u.Release[:])
}

// specs returns the types of the kernel and of its modules, by their names.
func specs(t *testing.T) map[string]*btf.Spec {
	t.Helper()
	vmlinux, err := btf.LoadSpec(filepath.Join(dir, "vmlinux"))
	if err != nil {
		t.Fatalf("btf.LoadSpec: %v", err)
	}
	out := map[string]*btf.Spec{"vmlinux": vmlinux}
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatalf("os.ReadDir(dir): %v", err)
	}
	for _, f := range files {
		if f.Name() == "vmlinux" {
			continue
		}
		spec, err := btf.LoadSplitSpec(filepath.Join(dir, f.Name()), vmlinux)
		if err != nil {
			t.Errorf("%s: %v", f.Name(), err)
			continue
		}
		out[f.Name()] = spec
	}
	if *modules != "" {
		notLoaded(t, vmlinux, out)
	}
	return out
}

// notLoaded adds the types of the drivers that are not loaded.
func notLoaded(t *testing.T, vmlinux *btf.Spec, to map[string]*btf.Spec) {
	t.Helper()
	drivers := "/" + release(t) + "/kernel/drivers/infiniband/"
	err := filepath.WalkDir(*modules, func(file string, d fs.DirEntry, err error) error {
		name, isModule := strings.CutSuffix(d.Name(), ".ko")
		if err != nil || !isModule || to[name] != nil || !strings.Contains(file, drivers) {
			return err
		}
		spec, err := loadModule(file, vmlinux)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		if spec != nil {
			to[name] = spec
		}
		return nil
	})
	if err != nil {
		t.Errorf("filepath.WalkDir: %v", err)
	}
}

// loadModule returns the types in a module's file, or nil if the file has none.
func loadModule(file string, vmlinux *btf.Spec) (*btf.Spec, error) {
	f, err := elf.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	section := f.Section(".BTF")
	if section == nil {
		return nil, nil
	}
	b, err := section.Data()
	if err != nil {
		return nil, err
	}
	return btf.LoadSplitSpecFromReader(bytes.NewReader(b), vmlinux)
}

// TestStructs compares every mirror with the kernel's structs of that name.
func TestStructs(t *testing.T) {
	t.Logf("Linux %s", release(t))
	kernel := (&golden.File{Version: release(t)}).Kernel()
	specs := specs(t)
	var missing []string
	found, at := 0, map[string]int{}
	for _, m := range mirrors.Table {
		outer, _, _ := strings.Cut(m.C, ".")
		n := 0
		for mod, spec := range specs {
			for _, c := range structs(t, spec, outer) {
				f := golden.File{Headers: []*golden.Header{{Structs: []*golden.Struct{c}}}}
				in := f.Inner(m.C)
				if in == nil {
					continue // newer than this kernel
				}
				n++
				at[mod]++
				for _, bad := range mirrors.Against(kernel, in, m.Type) {
					t.Errorf("%s: %s", mod, bad)
				}
			}
		}
		if n == 0 {
			missing = append(missing, m.C)
			continue
		}
		found++
	}
	t.Logf("%d of %d mirrors found: %v", found, len(mirrors.Table), at)
	t.Logf("not found: %s", strings.Join(missing, " "))
	if found < leastStructs {
		t.Errorf("mirrors found = %d, want at least %d (are ib_uverbs, rdma_ucm and rdma_rxe loaded?)", found, leastStructs)
	}
	if *modules != "" && at["mlx5_ib"] < leastMlx5Structs {
		t.Errorf("mirrors found in mlx5_ib = %d, want at least %d", at["mlx5_ib"], leastMlx5Structs)
	}
}

// structs returns the structs and unions called name.
func structs(t *testing.T, spec *btf.Spec, name string) []*golden.Struct {
	t.Helper()
	types, err := spec.AnyTypesByName(name)
	if errors.Is(err, btf.ErrNotFound) {
		return nil
	}
	if err != nil {
		t.Fatalf("AnyTypesByName(%s): %v", name, err)
	}
	var out []*golden.Struct
	for _, typ := range types {
		size, ms, ok := members(typ)
		if !ok {
			continue
		}
		converted, err := convert(ms, 0)
		if err != nil {
			t.Errorf("struct %s: %v", name, err)
			continue
		}
		_, union := typ.(*btf.Union)
		out = append(out, &golden.Struct{Name: name, Union: union, Size: size, Members: converted})
	}
	return out
}

// members returns the size and the members of a struct or union.
func members(typ btf.Type) (size int64, ms []btf.Member, ok bool) {
	switch typ := typ.(type) {
	case *btf.Struct:
		return int64(typ.Size), typ.Members, true
	case *btf.Union:
		return int64(typ.Size), typ.Members, true
	}
	return 0, nil, false
}

// convert converts members to the form of golden files.
func convert(ms []btf.Member, offset int64) ([]golden.Member, error) {
	var out []golden.Member
	for _, m := range ms {
		if m.BitfieldSize != 0 {
			return nil, fmt.Errorf("%s is a bit field", m.Name)
		}
		size, err := btf.Sizeof(m.Type)
		if err != nil {
			return nil, err
		}
		g := golden.Member{Name: m.Name, Offset: offset + int64(m.Offset.Bytes()), Size: int64(size), Type: typeName(m.Type)}
		if _, inner, ok := members(m.Type); ok && m.Type.TypeName() == "" {
			if g.Members, err = convert(inner, g.Offset); err != nil {
				return nil, err
			}
		}
		out = append(out, g)
	}
	return out, nil
}

// typeName spells a type as in C.
func typeName(typ btf.Type) string {
	switch typ := typ.(type) {
	case *btf.Struct:
		return strings.TrimSpace("struct " + typ.Name)
	case *btf.Union:
		return strings.TrimSpace("union " + typ.Name)
	case *btf.Enum:
		return "enum " + typ.Name
	case *btf.Pointer:
		return typeName(typ.Target) + " *"
	case *btf.Array:
		return fmt.Sprintf("%s[%d]", typeName(typ.Type), typ.Nelems)
	}
	return typ.TypeName()
}

// TestConstants compares every constant with the kernel's enumerators of that name.
func TestConstants(t *testing.T) {
	root, err := source.Root()
	if err != nil {
		t.Fatalf("source.Root(): %v", err)
	}
	p, err := source.Load(root)
	if err != nil {
		t.Fatalf("source.Load(root): %v", err)
	}
	found := map[string]bool{}
	for mod, spec := range specs(t) {
		for typ, err := range spec.All() {
			if err != nil {
				t.Fatalf("types of %s: %v", mod, err)
			}
			e, ok := typ.(*btf.Enum)
			if !ok {
				continue
			}
			for _, v := range e.Values {
				c := p.Consts[v.Name]
				if c == nil {
					continue
				}
				found[v.Name] = true
				if got := value(e, v); c.Value.Cmp(got) != 0 {
					t.Errorf("%s: %s = %v, want %v as in the kernel's enum %s", mod, v.Name, c.Value, got, e.Name)
				}
			}
		}
	}
	events := 0
	for name := range found {
		if strings.HasPrefix(name, "RDMA_CM_EVENT_") {
			events++
		}
	}
	t.Logf("%d of %d constants found, %d of them RDMA_CM_EVENT_*", len(found), len(p.Consts), events)
	if len(found) < leastConsts || events < 16 {
		t.Errorf("constants found = %d with %d events, want at least %d with 16", len(found), events, leastConsts)
	}
}

// value returns the value of an enumerator.
func value(e *btf.Enum, v btf.EnumValue) *big.Int {
	if e.Signed {
		return big.NewInt(int64(v.Value))
	}
	return new(big.Int).SetUint64(v.Value)
}
