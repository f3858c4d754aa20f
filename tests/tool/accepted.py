# ruff: noqa: E501
"""Programs and functions as contests and HumanEval have them, in the project's own words: whatever such code uses of
Python, CPython must run. Each is (code, what it reads or the call, what it prints or returns)."""

from __future__ import annotations

PROGRAMS = (
    ("n = int(input())\nprint('YES' if n > 2 and n % 2 == 0 else 'NO')", "8", "YES"),
    (
        "import heapq\nn = int(input())\nh = list(map(int, input().split()))\nheapq.heapify(h)\nt = 0\nwhile len(h) > 1:\n    s = heapq.heappop(h) + heapq.heappop(h)\n    t += s\n    heapq.heappush(h, s)\nprint(t)",
        "4\n1 2 3 4",
        "19",
    ),
    ("import sys\nt = 0\nfor line in sys.stdin:\n    t += int(line)\nprint(t)", "1\n2\n3\n", "6"),
    (
        "import sys\ndata = sys.stdin.read().split()\nn = int(data[0])\nprint(sum(map(int, data[1:n + 1])))",
        "3\n1 2 3",
        "6",
    ),
    ("for _ in range(int(input())):\n    print(int(input()).bit_length())", "2\n5\n1024", "3\n11"),
    (
        "import sys, threading\nsys.setrecursionlimit(10**6)\nthreading.stack_size(2**26)\ndef depth(n):\n    return 0 if n == 0 else 1 + depth(n - 1)\ndef main():\n    print(depth(int(input())))\nt = threading.Thread(target=main)\nt.start()\nt.join()",
        "50000",
        "50000",
    ),
    (
        "import sys\nsys.setrecursionlimit(10**5)\ndef f(n):\n    return 1 if n == 0 else f(n - 1) + 1\nprint(f(20000))",
        "",
        "20001",
    ),
    (
        "def primes(n):\n    for i in range(2, n + 1):\n        if all(i % j for j in range(2, int(i ** 0.5) + 1)):\n            yield i\nprint(*primes(int(input())))",
        "20",
        "2 3 5 7 11 13 17 19",
    ),
    ("from collections import Counter\ns = input()\nprint(Counter(s).most_common(1)[0][0])", "abracadabra", "a"),
    (
        "from collections import deque\nn, m = map(int, input().split())\ng = [[] for _ in range(n)]\nfor _ in range(m):\n    a, b = map(int, input().split())\n    g[a - 1].append(b - 1)\n    g[b - 1].append(a - 1)\nd = [-1] * n\nd[0] = 0\nq = deque([0])\nwhile q:\n    u = q.popleft()\n    for v in g[u]:\n        if d[v] < 0:\n            d[v] = d[u] + 1\n            q.append(v)\nprint(*d)",
        "4 3\n1 2\n2 3\n3 4",
        "0 1 2 3",
    ),
    (
        "import heapq\nn, m = map(int, input().split())\ng = [[] for _ in range(n + 1)]\nfor _ in range(m):\n    a, b, w = map(int, input().split())\n    g[a].append((b, w))\nINF = float('inf')\ndist = [INF] * (n + 1)\ndist[1] = 0\nh = [(0, 1)]\nwhile h:\n    d, u = heapq.heappop(h)\n    if d > dist[u]:\n        continue\n    for v, w in g[u]:\n        if d + w < dist[v]:\n            dist[v] = d + w\n            heapq.heappush(h, (d + w, v))\nprint(dist[n] if dist[n] < INF else -1)",
        "3 3\n1 2 4\n1 3 10\n2 3 3",
        "7",
    ),
    (
        "from fractions import Fraction\na, b = map(int, input().split())\nprint(Fraction(a, b) + Fraction(1, 3))",
        "1 6",
        "1/2",
    ),
    ("from itertools import permutations\nprint(len({''.join(p) for p in permutations(input())}))", "aab", "3"),
    (
        "from functools import lru_cache\n@lru_cache(None)\ndef fib(n):\n    return n if n < 2 else fib(n - 1) + fib(n - 2)\nprint(fib(int(input())))",
        "80",
        "23416728348467685",
    ),
    (
        "from bisect import bisect_left\na = list(map(int, input().split()))\nt = []\nfor x in a:\n    i = bisect_left(t, x)\n    t[i:i + 1] = [x]\nprint(len(t))",
        "3 1 2 5 4",
        "3",
    ),
    (
        "class DSU:\n    def __init__(self, n):\n        self.p = list(range(n))\n    def find(self, x):\n        while self.p[x] != x:\n            self.p[x] = self.p[self.p[x]]\n            x = self.p[x]\n        return x\n    def union(self, a, b):\n        self.p[self.find(a)] = self.find(b)\nn, m = map(int, input().split())\nd = DSU(n)\nfor _ in range(m):\n    d.union(*(int(x) - 1 for x in input().split()))\nprint(len({d.find(i) for i in range(n)}))",
        "5 2\n1 2\n3 4",
        "3",
    ),
    (
        "import math\na, b = map(int, input().split())\nprint(math.gcd(a, b), a * b // math.gcd(a, b), math.isqrt(a), math.comb(a, 2))",
        "12 18",
        "6 36 3 66",
    ),
    (
        "MOD = 10**9 + 7\nn, k = map(int, input().split())\nprint(pow(n, -1, MOD) * n % MOD, pow(n, k, MOD))",
        "5 100",
        "1 " + str(pow(5, 100, 10**9 + 7)),
    ),
    (
        "s = input()\nst = []\nok = True\nfor c in s:\n    if c in '([{':\n        st.append(c)\n    elif not st or '([{'.index(st.pop()) != ')]}'.index(c):\n        ok = False\n        break\nprint('YES' if ok and not st else 'NO')",
        "([]{})",
        "YES",
    ),
    (
        "import sys\ninput = sys.stdin.readline\nn = int(input())\na = [list(map(int, input().split())) for _ in range(n)]\nprint(*map(sum, zip(*a)))",
        "2\n1 2\n3 4",
        "4 6",
    ),
    (
        "import os, sys\nfrom io import BytesIO\ninput = BytesIO(os.read(0, os.fstat(0).st_size)).readline\nprint(int(input()) * 2)",
        "21\n",
        "42",
    ),
    (
        "from decimal import Decimal, getcontext\ngetcontext().prec = 30\nprint(Decimal(input()) / 3)",
        "1",
        "0.333333333333333333333333333333",
    ),
    (
        "from string import ascii_lowercase as abc\nprint(''.join(abc[(abc.index(c) + 13) % 26] for c in input()))",
        "hello",
        "uryyb",
    ),
    ("n = int(input())\nprint(bin(n)[2:], oct(n)[2:], hex(n)[2:], f'{n:b}'.count('1'))", "255", "11111111 377 ff 8"),
    (
        "from operator import itemgetter\nn = int(input())\nr = [input().split() for _ in range(n)]\nr.sort(key=itemgetter(1))\nfor name, _ in r:\n    print(name)",
        "2\nb 2\na 1",
        "a\nb",
    ),
    (
        "from functools import cmp_to_key\na = input().split()\na.sort(key=cmp_to_key(lambda x, y: -1 if x + y > y + x else 1))\nprint(''.join(a))",
        "3 30 34 5 9",
        "9534330",
    ),
    (
        "n = int(input())\ngrid = [input() for _ in range(n)]\nseen = set()\ndef fill(i, j):\n    stack = [(i, j)]\n    while stack:\n        x, y = stack.pop()\n        if 0 <= x < n and 0 <= y < len(grid[0]) and grid[x][y] == '#' and (x, y) not in seen:\n            seen.add((x, y))\n            stack += [(x + 1, y), (x - 1, y), (x, y + 1), (x, y - 1)]\nc = 0\nfor i in range(n):\n    for j in range(len(grid[0])):\n        if grid[i][j] == '#' and (i, j) not in seen:\n            c += 1\n            fill(i, j)\nprint(c)",
        "3\n#.#\n#..\n..#",
        "3",
    ),
    (
        "n, w = map(int, input().split())\ndp = [0] * (w + 1)\nfor _ in range(n):\n    a, v = map(int, input().split())\n    for j in range(w, a - 1, -1):\n        dp[j] = max(dp[j], dp[j - a] + v)\nprint(dp[w])",
        "3 5\n2 3\n3 4\n4 5",
        "7",
    ),
    (
        "a, b = input(), input()\nd = [[0] * (len(b) + 1) for _ in range(len(a) + 1)]\nfor i in range(len(a) + 1):\n    for j in range(len(b) + 1):\n        d[i][j] = i + j if 0 in (i, j) else min(d[i-1][j] + 1, d[i][j-1] + 1, d[i-1][j-1] + (a[i-1] != b[j-1]))\nprint(d[-1][-1])",
        "kitten\nsitting",
        "3",
    ),
    ("import re\nprint(len(re.findall(r'[aeiou]+', input())))", "queueing tea", "2"),
    ("try:\n    while True:\n        print(int(input()) ** 2)\nexcept EOFError:\n    pass", "1\n2\n3", "1\n4\n9"),
    (
        "class Node:\n    __slots__ = ('kids', 'end')\n    def __init__(self):\n        self.kids, self.end = {}, False\nroot = Node()\nfor w in input().split():\n    n = root\n    for c in w:\n        n = n.kids.setdefault(c, Node())\n    n.end = True\ndef walk(n, p=''):\n    if n.end:\n        yield p\n    for c in sorted(n.kids):\n        yield from walk(n.kids[c], p + c)\nprint(*walk(root))",
        "to tea ten a",
        "a tea ten to",
    ),
    (
        "from itertools import accumulate, groupby\nprint(*accumulate(map(int, input().split())))\nprint(*(f'{k}{len(list(g))}' for k, g in groupby(input())))",
        "1 2 3\naabc",
        "1 3 6\na2 b1 c1",
    ),
    ("from array import array\na = array('i', map(int, input().split()))\na.reverse()\nprint(*a)", "1 2 3", "3 2 1"),
    (
        "class Fenwick:\n    def __init__(self, n):\n        self.t = [0] * (n + 1)\n    def add(self, i, v):\n        while i < len(self.t):\n            self.t[i] += v\n            i += i & -i\n    def sum(self, i):\n        s = 0\n        while i:\n            s += self.t[i]\n            i &= i - 1\n        return s\na = list(map(int, input().split()))\nf = Fenwick(max(a))\nr = 0\nfor i, x in enumerate(a):\n    r += i - f.sum(x)\n    f.add(x, 1)\nprint(r)",
        "3 1 2",
        "2",
    ),
    (
        "n = int(input())\ncols, d1, d2 = set(), set(), set()\ndef put(r):\n    if r == n:\n        return 1\n    t = 0\n    for c in range(n):\n        if c in cols or r + c in d1 or r - c in d2:\n            continue\n        cols.add(c), d1.add(r + c), d2.add(r - c)\n        t += put(r + 1)\n        cols.remove(c), d1.remove(r + c), d2.remove(r - c)\n    return t\nprint(put(0))",
        "6",
        "4",
    ),
    (
        "d = {}\nfor _ in range(int(input())):\n    k, v = input().split()\n    d[k] = d.get(k, 0) + int(v)\ndel d['b']\nprint(sorted(d.items(), key=lambda p: (-p[1], p[0])))",
        "3\na 1\nb 2\na 3",
        "[('a', 4)]",
    ),
    (
        "import random\nrandom.seed(1)\na = list(range(100))\nrandom.shuffle(a)\nprint(sorted(a) == list(range(100)))",
        "",
        "True",
    ),
    ("import time\nt = time.time()\nprint(time.time() - t < 5)", "", "True"),
    (
        "from statistics import mean, median\na = list(map(int, input().split()))\nprint(mean(a), median(a))",
        "1 2 3 6",
        "3 2.5",
    ),
    ("print('{:.3f} {:>5} {:<5}|'.format(3.14159, 'a', 'b'), '%05d' % 42)", "", "3.142     a b    | 00042"),
    ("a, *rest, b = map(int, input().split())\nprint(a, rest, b)", "1 2 3 4", "1 [2, 3] 4"),
    (
        "match input().split():\n    case ['add', a, b]:\n        print(int(a) + int(b))\n    case _:\n        print('no')",
        "add 2 3",
        "5",
    ),
    ("while (s := input()) != 'end':\n    print(s[::-1])", "abc\ndef\nend", "cba\nfed"),
    (
        "from typing import List, Optional\nfrom dataclasses import dataclass, field\n@dataclass(order=True)\nclass P:\n    x: int\n    tags: List[str] = field(default_factory=list, compare=False)\nprint(max(P(1), P(3), P(2)).x)",
        "",
        "3",
    ),
    (
        "from abc import ABC, abstractmethod\nclass Shape(ABC):\n    @abstractmethod\n    def area(self): ...\nclass Sq(Shape):\n    def __init__(self, a): self.a = a\n    @property\n    def area(self): return self.a ** 2\nclass Big(Sq):\n    def __init__(self, a): super().__init__(a * 2)\nprint(Big(int(input())).area)",
        "3",
        "36",
    ),
    (
        "import sys\nprint(sys.stdin.readline().strip(), file=sys.stdout)\nprint('x', file=sys.stderr)\nsys.exit(0)",
        "hello\n",
        "hello",
    ),
    (
        "from queue import PriorityQueue\nq = PriorityQueue()\nfor x in map(int, input().split()):\n    q.put(-x)\nprint(-q.get())",
        "1 5 3",
        "5",
    ),
    ("g = (x * x for x in iter(lambda: int(input()), 0))\nprint(sum(g))", "1\n2\n0", "5"),
    ("import cmath\nprint(round(abs(cmath.exp(1j * cmath.pi) + 1), 6), complex(1, 2) * 1j)", "", "0.0 (-2+1j)"),
    (
        "x = int(input())\ndef outer():\n    c = 0\n    def inner():\n        nonlocal c\n        c += x\n        return c\n    return inner\nf = outer()\nf()\nprint(f())",
        "4",
        "8",
    ),
    (
        "n = int(input())\ns = bytearray([1]) * (n + 1)\ns[:2] = b'\\0\\0'\nfor i in range(2, int(n ** .5) + 1):\n    if s[i]:\n        s[i * i::i] = bytes(len(range(i * i, n + 1, i)))\nprint(sum(s))",
        "1000",
        "168",
    ),
    ("import copy\na = [[1], [2]]\nb = copy.deepcopy(a)\nb[0].append(3)\nprint(a, b)", "", "[[1], [2]] [[1, 3], [2]]"),
    ("print(sum(map(int, str(2 ** int(input())))))", "1000", "1366"),
    (
        "from collections import defaultdict, OrderedDict, namedtuple\nP = namedtuple('P', 'x y')\nd = defaultdict(list)\nfor w in input().split():\n    d[len(w)].append(w)\nprint(dict(d), P(1, 2))",
        "a bb c",
        "{1: ['a', 'c'], 2: ['bb']} P(x=1, y=2)",
    ),
    (
        "l, r = 0, 10 ** 9\nn = int(input())\nwhile l < r:\n    m = (l + r + 1) >> 1\n    if m * m <= n:\n        l = m\n    else:\n        r = m - 1\nprint(l)",
        "99",
        "9",
    ),
    (
        "class S:\n    def __init__(self, s): self.s = s\n    def __lt__(self, o): return len(self.s) < len(o.s)\n    def __repr__(self): return self.s\n    def __iter__(self): return iter(self.s)\n    def __getitem__(self, i): return self.s[i]\nprint(sorted(map(S, input().split())), *S('ab'), S('xyz')[-1])",
        "ccc a bb",
        "[a, bb, ccc] a b z",
    ),
    (
        "from contextlib import contextmanager\n@contextmanager\ndef tag(n):\n    print('<' + n + '>')\n    yield\n    print('</' + n + '>')\nwith tag('b'):\n    print(input())",
        "x",
        "<b>\nx\n</b>",
    ),
    (
        "import json\nprint(json.dumps({'n': [int(x) for x in input().split()]}, sort_keys=True))",
        "1 2",
        '{"n": [1, 2]}',
    ),
    (
        "from datetime import date\ny, m, d = map(int, input().split())\nprint(date(y, m, d).weekday(), (date(y, m, d) - date(2000, 1, 1)).days)",
        "2000 3 1",
        "2 60",
    ),
)
"""Programs that read and print."""

FUNCTIONS = (
    (
        "def f(a, t):\n    a = sorted(a)\n    return any(y - x < t for x, y in zip(a, a[1:]))",
        "f([1.0, 2.8, 3.0], 0.3)",
        True,
    ),
    (
        "def f(s):\n    out, cur, d = [], '', 0\n    for c in s.replace(' ', ''):\n        d += 1 if c == '(' else -1\n        cur += c\n        if d == 0:\n            out.append(cur)\n            cur = ''\n    return out",
        "f('(()) ()')",
        ["(())", "()"],
    ),
    ("def f(x):\n    return x % 1.0", "f(3.5)", 0.5),
    (
        "def f(ops):\n    b = 0\n    for o in ops:\n        b += o\n        if b < 0:\n            return True\n    return False",
        "f([1, 2, -4])",
        True,
    ),
    (
        "def f(a):\n    m = sum(a) / len(a)\n    return sum(abs(x - m) for x in a) / len(a)",
        "f([1.0, 2.0, 3.0, 4.0])",
        1.0,
    ),
    ("def f(a, d):\n    return [y for x in a for y in (x, d)][:-1]", "f([1, 2, 3], 4)", [1, 4, 2, 4, 3]),
    (
        "def f(s):\n    r = []\n    for g in s.split():\n        m = d = 0\n        for c in g:\n            d += 1 if c == '(' else -1\n            m = max(m, d)\n        r.append(m)\n    return r",
        "f('(()()) ((()))')",
        [2, 3],
    ),
    ("def f(a, s):\n    return [x for x in a if s in x]", "f(['abc', 'bcd'], 'a')", ["abc"]),
    (
        "from functools import reduce\ndef f(a):\n    return sum(a), reduce(lambda x, y: x * y, a, 1)",
        "f([1, 2, 3, 4])",
        (10, 24),
    ),
    (
        "from itertools import accumulate\ndef f(a):\n    return list(accumulate(a, max))",
        "f([1, 3, 2, 4])",
        [1, 3, 3, 4],
    ),
    (
        "def f(s):\n    for i in range(len(s)):\n        if s[i:] == s[i:][::-1]:\n            return s + s[:i][::-1]\n    return ''",
        "f('cata')",
        "catac",
    ),
    ("def f(a, b):\n    return ''.join(str(int(x) ^ int(y)) for x, y in zip(a, b))", "f('010', '110')", "100"),
    ("def f(a):\n    return max(a, key=len, default=None)", "f(['a', 'bb', 'cc'])", "bb"),
    ("def f(a, b):\n    while b:\n        a, b = b, a % b\n    return a", "f(25, 15)", 5),
    ("def f(s):\n    return [s[:i] for i in range(1, len(s) + 1)]", "f('abc')", ["a", "ab", "abc"]),
    ("def f(n):\n    return ' '.join(map(str, range(n + 1)))", "f(5)", "0 1 2 3 4 5"),
    ("def f(s):\n    return len(set(s.lower()))", "f('xyzXYZ')", 3),
    ("def f(s):\n    return [{'o': 4, 'o|': 2, '.|': 1}[x] for x in s.split()]", "f('o o| .|')", [4, 2, 1]),
    ("def f(s, t):\n    return sum(s.startswith(t, i) for i in range(len(s)))", "f('aaaa', 'aa')", 3),
    (
        "def f(s):\n    w = 'zero one two three four five six seven eight nine'.split()\n    return ' '.join(sorted(s.split(), key=w.index))",
        "f('three one five')",
        "one three five",
    ),
    (
        "from itertools import combinations\ndef f(a):\n    return min(combinations(sorted(a), 2), key=lambda p: p[1] - p[0])",
        "f([1.0, 2.0, 3.5, 2.2])",
        (2.0, 2.2),
    ),
    (
        "def f(a):\n    lo, hi = min(a), max(a)\n    return [(x - lo) / (hi - lo) for x in a]",
        "f([1.0, 2.0, 3.0])",
        [0.0, 0.5, 1.0],
    ),
    ("def f(a):\n    return [x for x in a if type(x) is int]", "f(['a', 3.14, 5])", [5]),
    ("def f(n):\n    for i in range(n - 1, 0, -1):\n        if n % i == 0:\n            return i", "f(15)", 5),
    (
        "def f(n):\n    r, p = [], 2\n    while n > 1:\n        while n % p == 0:\n            r.append(p)\n            n //= p\n        p += 1\n    return r",
        "f(70)",
        [2, 5, 7],
    ),
    (
        "from collections import Counter\ndef f(a):\n    c = Counter(a)\n    return [x for x in a if c[x] == 1]",
        "f([1, 2, 3, 2, 4])",
        [1, 3, 4],
    ),
    ("def f(s):\n    return s.swapcase()", "f('Hello')", "hELLO"),
    ("def f(a, p):\n    return [x for x in a if x.startswith(p)]", "f(['abc', 'bcd'], 'a')", ["abc"]),
    ("def f(n):\n    return n > 1 and all(n % i for i in range(2, int(n ** 0.5) + 1))", "f(61)", True),
    (
        "import math\ndef p(xs, x):\n    return sum(c * math.pow(x, i) for i, c in enumerate(xs))\ndef f(xs):\n    a, b = -1.0, 1.0\n    while p(xs, a) * p(xs, b) > 0:\n        a, b = a * 2, b * 2\n    while b - a > 1e-10:\n        c = (a + b) / 2\n        a, b = (c, b) if p(xs, a) * p(xs, c) > 0 else (a, c)\n    return round(a, 4)",
        "f([1, 2])",
        -0.5,
    ),
    ("def f(a):\n    a = list(a)\n    a[::3] = sorted(a[::3])\n    return a", "f([5, 6, 3, 4])", [4, 6, 3, 5]),
    ("def f(n):\n    return sum(str(i).count('7') for i in range(n) if i % 11 == 0 or i % 13 == 0)", "f(79)", 3),
    (
        "def f(n):\n    a = [0, 0, 2, 0]\n    for i in range(4, n + 1):\n        a.append(sum(a[-4:]))\n    return a[n]",
        "f(7)",
        14,
    ),
    ("from statistics import median\ndef f(a):\n    return median(a)", "f([3, 1, 2, 4])", 2.5),
    ("def f(s):\n    return s == s[::-1]", "f('aba')", True),
    ("def f(n, p):\n    return pow(2, n, p)", "f(1101, 101)", 2),
    ("def f(s):\n    return ''.join(c for c in s if c.lower() not in 'aeiou')", "f('zbcd aeI')", "zbcd "),
    (
        "def f(x, b):\n    r = ''\n    while x:\n        r = str(x % b) + r\n        x //= b\n    return r",
        "f(8, 3)",
        "22",
    ),
    (
        "from functools import cache\n@cache\ndef f(n):\n    return n if n < 2 else f(n - 1) + f(n - 2)",
        "f(90)",
        2880067194370816120,
    ),
    (
        "def f(s):\n    d = 0\n    for c in s:\n        d += 1 if c == '<' else -1\n        if d < 0:\n            return False\n    return d == 0",
        "f('<<>>')",
        True,
    ),
    ("def f(a):\n    return a == sorted(a) or a == sorted(a, reverse=True)", "f([4, 1, 0, -10])", True),
    ("def f(a, b):\n    return sorted({*a} & {*b})", "f([1, 4, 3], [5, 3, 1])", [1, 3]),
    ("def f(s):\n    return 'AB'.isupper() and sum(map(ord, filter(str.isupper, s)))", "f('abAB')", 131),
    (
        "import re\ndef f(s, n):\n    return n - sum(map(int, re.findall(r'\\d+', s)))",
        "f('5 apples and 6 oranges', 19)",
        8,
    ),
    (
        "def f(a):\n    r, lo = [], True\n    a = sorted(a)\n    while a:\n        r.append(a.pop(0 if lo else -1))\n        lo = not lo\n    return r",
        "f([1, 2, 3, 4])",
        [1, 4, 2, 3],
    ),
    (
        "def f(a, b, c):\n    if a + b <= c or a + c <= b or b + c <= a:\n        return -1\n    s = (a + b + c) / 2\n    return round((s * (s - a) * (s - b) * (s - c)) ** 0.5, 2)",
        "f(3, 4, 5)",
        6.0,
    ),
    ("def f(a):\n    return max((x for x in set(a) if a.count(x) >= x), default=-1)", "f([4, 1, 2, 2, 3, 1])", 2),
    ("def f(n):\n    return bin(n).count('1'), n.bit_length(), n.bit_count()", "f(10)", (2, 4, 2)),
    (
        "def f(s):\n    import hashlib\n    return hashlib.md5(s.encode()).hexdigest() if s else None",
        "f('Hello world')",
        "3e25960a79dbc69b674cd4ec67a72c62",
    ),
    ("import heapq\ndef f(a, k):\n    return heapq.nlargest(k, a)", "f([5, 1, 4], 2)", [5, 4]),
    (
        "def f(n):\n    w = [(1000, 'm'), (900, 'cm'), (500, 'd'), (400, 'cd'), (100, 'c'), (90, 'xc'), (50, 'l'), (40, 'xl'), (10, 'x'), (9, 'ix'), (5, 'v'), (4, 'iv'), (1, 'i')]\n    r = ''\n    for v, s in w:\n        r += s * (n // v)\n        n %= v\n    return r",
        "f(152)",
        "clii",
    ),
    (
        "def f(x):\n    from decimal import ROUND_HALF_UP, Decimal\n    return int(Decimal(x).to_integral_value(rounding=ROUND_HALF_UP))",
        "f('15.3')",
        15,
    ),
    (
        "def f(d):\n    return bool(d) and (all(k == k.lower() for k in d) or all(k == k.upper() for k in d))",
        "f({'a': 1, 'B': 2})",
        False,
    ),
    (
        "def f(s, n):\n    return [w for w in s.split() if sum(c.lower() not in 'aeiou' for c in w) == n]",
        "f('Mary had a lamb', 3)",
        ["Mary", "lamb"],
    ),
    (
        "class Stack(list):\n    def top(self):\n        return self[-1]\ndef f(a):\n    s = Stack(a)\n    s.append(9)\n    return s.top()",
        "f([1])",
        9,
    ),
    ("def f(*a, **k):\n    return sum(a) + sum(k.values())", "f(1, 2, x=3)", 6),
    ("def g(n):\n    yield from range(n)\ndef f(n):\n    return [*g(n)], {**{'a': n}}", "f(2)", ([0, 1], {"a": 2})),
    (
        "from fractions import Fraction\ndef f(a, b):\n    return (Fraction(a) * Fraction(b)).denominator == 1",
        "f('1/5', '5/1')",
        True,
    ),
    ("def f(m):\n    return [list(r) for r in zip(*m[::-1])]", "f([[1, 2], [3, 4]])", [[3, 1], [4, 2]]),
    (
        "def f(a):\n    try:\n        return 1 / a\n    except ZeroDivisionError as e:\n        return str(e)\n    finally:\n        del a",
        "f(0)",
        "division by zero",
    ),
)
"""Functions that are called."""
