// SPDX-License-Identifier: Apache-2.0

package uverbs

import (
	"fmt"
	"sync"
)

// prepared is a request of which only values change between uses: handles, and the inputs
// and answers in values. Its attributes are made once, and compared once with the
// declaration of its method. A connection makes several such requests.
type prepared[V any] struct {
	Request
	values V
}

// preparedPool has the prepared requests of one kind.
type preparedPool[V any] struct{ pool sync.Pool }

// prepare returns the pool of a request whose attributes name fields of the values.
func prepare[V any](object, method uint16, attrs func(*V) []Attr) *preparedPool[V] {
	p := new(preparedPool[V])
	p.pool.New = func() any {
		req := &prepared[V]{Request: Request{Object: object, Method: method}}
		req.Attrs = attrs(&req.values)
		if err := MethodOf(object, method).Check(&req.Request); err != nil {
			panic(fmt.Sprintf("uverbs: %v", err))
		}
		return req
	}
	return p
}

// get returns a request with the values of an earlier use. put follows.
func (p *preparedPool[V]) get() *prepared[V] { return p.pool.Get().(*prepared[V]) }

func (p *preparedPool[V]) put(req *prepared[V]) { p.pool.Put(req) }

// runWith sends the request to the kernel with the driver's part, which is not compared with
// the declaration.
func (r *prepared[V]) runWith(f *File, drv Driver) error {
	n := len(r.Attrs)
	r.Attrs = drv.append(r.Attrs)
	err := f.run(&r.Request)
	clear(r.Attrs[n:]) // they hold on to memory
	r.Attrs = r.Attrs[:n]
	return err
}

// destroyPool has the requests that destroy an object. R is the answer, struct{} for none.
type destroyPool[R any] struct{ *preparedPool[R] }

// prepareDestroy takes the ids of the attributes. respID is 0 if there is no response.
func prepareDestroy[R any](object, method, handleID, respID uint16) destroyPool[R] {
	return destroyPool[R]{prepare(object, method, func(resp *R) []Attr {
		attrs := []Attr{handle(handleID, 0)}
		if respID != 0 {
			attrs = append(attrs, out(respID, resp))
		}
		return attrs
	})}
}

// run destroys the object with a handle.
func (p destroyPool[R]) run(f *File, h uint32) error {
	req := p.get()
	defer p.put(req)
	req.Attrs[0].Value = uint64(h)
	return f.run(&req.Request)
}
