// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cm

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"unsafe"

	"purerdma/abi"
	"purerdma/internal/cdev"
	"purerdma/provider"
	"purerdma/provider/rxe"
	"purerdma/ucma"
	"purerdma/uverbs"
	"purerdma/uverbs/uverbstest"
	"purerdma/verbs"
)

// lockDevice passes the writes of its hook to a file of package cdev.
type lockDevice struct {
	ucma.Device
	file  *cdev.File
	wrote func() // nil to write to the Device
}

func (d *lockDevice) Write(b []byte) error {
	if d.wrote == nil {
		return d.Device.Write(b)
	}
	err := d.file.Write(b)
	d.wrote()
	return err
}

// quietKernel is a kernel without asynchronous events. No goroutine of the library uses its devices.
type quietKernel struct{ *uverbstest.Kernel }

func (k quietKernel) Open(info uverbs.DeviceInfo) (uverbs.Transport, error) {
	t, err := k.Kernel.Open(info)
	return quietFile{t}, err
}

type quietFile struct{ uverbs.Transport }

func (f quietFile) Ioctl(req *uverbs.Request) error {
	if req.Object == abi.UVERBS_OBJECT_ASYNC_EVENT {
		return syscall.EOPNOTSUPP
	}
	return f.Transport.Ioctl(req)
}

// TestConnectLocks counts the locks that Connect takes before write(2) returns. It locks each
// lock that is reachable from an ID, one at a time, and checks whether Connect blocks on it.
func TestConnectLocks(t *testing.T) {
	noGlobalLocks(t, ".", "../ucma", "../internal/cdev", "../internal/netns")
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatalf("os.Pipe: %v", err)
	}
	defer r.Close()
	fd, err := syscall.Dup(int(w.Fd()))
	w.Close()
	if err != nil {
		t.Fatalf("Dup: %v", err)
	}
	file, err := cdev.New(fd, "pipe")
	if err != nil {
		t.Fatalf("cdev.New: %v", err)
	}
	defer file.Close()
	d := &lockDevice{Device: newFakeKernel(), file: file}
	host := &verbs.Host{Drivers: []provider.Driver{rxe.Driver{}}, Kernel: quietKernel{uverbstest.New("rxe0")}}
	ch := newEventChannel(ucma.New(d), host)
	t.Cleanup(func() { d.wrote = nil; ch.Close() })
	id := newFakeID(t, ch)
	if id.dev, err = host.Open("rxe0"); err != nil {
		t.Fatalf("host.Open: %v", err)
	}

	locks := map[unsafe.Pointer]lockAt{}
	findLocks(reflect.ValueOf(id), "ID", map[visited]bool{}, locks)
	var taken []string
	for _, l := range locks {
		if blocksOn(l, d, id) {
			taken = append(taken, l.path)
		}
	}
	slices.Sort(taken)
	if want := []string{"ID.moving", "ID.mu"}; !slices.Equal(taken, want) {
		t.Errorf("Connect takes %q of %d locks, want %q", taken, len(locks), want)
	}
}

// blocksOn reports whether Connect waits for a lock before write(2) has returned.
func blocksOn(l lockAt, d *lockDevice, id *ID) bool {
	wrote, returned := make(chan struct{}), make(chan struct{})
	d.wrote = sync.OnceFunc(func() { close(wrote) })
	l.lock.Lock()
	go func() {
		defer close(returned)
		connectForLocks(id)
	}()
	blocked := false
	for stacks := make([]byte, 1<<20); !blocked; runtime.Gosched() {
		select {
		case <-wrote:
			l.lock.Unlock()
			<-returned
			return false
		default:
		}
		for g := range strings.SplitSeq(string(stacks[:runtime.Stack(stacks, true)]), "\n\n") {
			head, _, _ := strings.Cut(g, "\n")
			blocked = blocked || strings.Contains(g, ".connectForLocks(") && strings.Contains(head, "Mutex.")
		}
	}
	select {
	case <-wrote: // the lock that it waits for is taken after the write
		blocked = false
	default:
	}
	l.lock.Unlock()
	<-returned
	return blocked
}

// connectForLocks calls Connect. Its name identifies the goroutine's stack.
//
//go:noinline
func connectForLocks(id *ID) error { return id.Connect(&ConnParam{QPNum: 1}) }

type lockAt struct {
	path string
	lock sync.Locker
}

type visited struct {
	p unsafe.Pointer
	t reflect.Type
}

// findLocks collects the locks in v and in every value that is reachable from it.
func findLocks(v reflect.Value, path string, seen map[visited]bool, locks map[unsafe.Pointer]lockAt) {
	switch v.Kind() {
	case reflect.Pointer:
		if at := (visited{v.UnsafePointer(), v.Type()}); !v.IsNil() && !seen[at] {
			seen[at] = true
			findLocks(v.Elem(), path, seen, locks)
		}
	case reflect.Interface:
		findLocks(v.Elem(), path, seen, locks)
	case reflect.Map:
		if !v.IsNil() {
			for it := v.MapRange(); it.Next(); {
				findLocks(it.Key(), path+"[key]", seen, locks)
				findLocks(it.Value(), path+"[value]", seen, locks)
			}
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			findLocks(v.Index(i), fmt.Sprintf("%s[%d]", path, i), seen, locks)
		}
	case reflect.Struct:
		if v.CanAddr() {
			p := unsafe.Pointer(v.UnsafeAddr())
			switch v.Type() {
			case reflect.TypeFor[sync.Mutex]():
				locks[p] = lockAt{path, (*sync.Mutex)(p)}
				return
			case reflect.TypeFor[sync.RWMutex]():
				locks[p] = lockAt{path, (*sync.RWMutex)(p)}
				return
			}
		}
		for i := range v.NumField() {
			findLocks(v.Field(i), path+"."+v.Type().Field(i).Name, seen, locks)
		}
	}
}

// noGlobalLocks checks that the packages in the directories have no variable with a lock,
// because findLocks would not find it.
func noGlobalLocks(t *testing.T, dirs ...string) {
	t.Helper()
	for _, dir := range dirs {
		names, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil || len(names) == 0 {
			t.Fatalf("Glob(%s) = %d files, %v, want Go files", dir, len(names), err)
		}
		var files []*ast.File
		for _, name := range names {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatalf("parser.ParseFile: %v", err)
			}
			files = append(files, f)
		}
		for _, name := range globalLocks(files) {
			t.Errorf("package %s: variable %s has a lock, which this test does not count", dir, name)
		}
	}
}

// globalLocks returns the variables of a package that have a lock. It inspects the source of
// their types and values. A variable has a lock if its type or value names a lock of package
// sync, or a type of the package that contains one.
func globalLocks(files []*ast.File) (vars []string) {
	locked := map[string]bool{"sync.Mutex": true, "sync.RWMutex": true}
	mentions := func(n ast.Node) (found bool) {
		ast.Inspect(n, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncLit:
				return false // its locks belong to no variable
			case *ast.Ident:
				found = found || locked[n.Name]
			case *ast.SelectorExpr:
				x, ok := n.X.(*ast.Ident)
				found = found || ok && locked[x.Name+"."+n.Sel.Name]
			}
			return !found
		})
		return found
	}
	each := func(tok token.Token, do func(ast.Spec)) {
		for _, f := range files {
			for _, d := range f.Decls {
				if g, ok := d.(*ast.GenDecl); ok && g.Tok == tok {
					for _, s := range g.Specs {
						do(s)
					}
				}
			}
		}
	}
	for n := 0; n != len(locked); {
		n = len(locked)
		each(token.TYPE, func(s ast.Spec) {
			if s := s.(*ast.TypeSpec); mentions(s.Type) {
				locked[s.Name.Name] = true
			}
		})
	}
	each(token.VAR, func(s ast.Spec) {
		v := s.(*ast.ValueSpec)
		if v.Names[0].Name == "_" {
			return
		}
		if v.Type != nil && mentions(v.Type) || slices.ContainsFunc(v.Values, func(e ast.Expr) bool { return mentions(e) }) {
			vars = append(vars, v.Names[0].Name)
		}
	})
	return vars
}
