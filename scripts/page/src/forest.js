// The turns of a group as one tree: a fork's own turns hang on the turn of its parent that they follow.

export const isFork = ({ parent }) => parent !== null && parent !== undefined && parent >= 0;

// Return the root: { depth: -1, children }, and below it { member, turn, index, children, isFork, token, isLast }.
export function forest(members) {
  const root = { member: null, index: -1, children: [] };
  const bySample = new Map(members.map((member) => [member.sample, member]));
  const parentOf = (member) => (isFork(member) ? bySample.get(member.parent) : undefined);
  const paths = new Map(); // sample -> its own nodes by turn
  const busy = new Set();

  // Return the node of a turn of a member, whoever sampled it.
  function nodeAt(member, index) {
    if (index < 0) return root;
    const own = grow(member);
    if (own.has(index)) return own.get(index);
    const parent = parentOf(member);
    return parent && !busy.has(parent) ? nodeAt(parent, index) : root;
  }

  function grow(member) {
    if (paths.has(member.sample)) return paths.get(member.sample);
    const own = new Map();
    paths.set(member.sample, own);
    busy.add(member);
    const parent = parentOf(member);
    const first = parent ? member.fork_turn ?? 0 : 0;
    let above = parent ? nodeAt(parent, first - 1) : root;
    member.turns.forEach((turn, index) => {
      if (index < first) return;
      const node = { member, turn, index, children: [], isFork: Boolean(parent) && index === first, token: index === first ? member.fork_token ?? 0 : 0, isLast: index === member.turns.length - 1 };
      own.set(index, node);
      above.children.push(node);
      above = node;
    });
    busy.delete(member);
    return own;
  }

  for (const member of members) grow(member);
  return root;
}

// Return the first place at which two episodes differ: { turn, token }; turn is the length of the shorter one where that is its whole.
export function divergence(a, b) {
  const most = Math.min(a.turns.length, b.turns.length);
  for (let turn = 0; turn < most; turn++) {
    const [left, right] = [a.turns[turn], b.turns[turn]];
    const token = firstDifference(left.tokens?.pieces ?? [left.text], right.tokens?.pieces ?? [right.text]);
    if (token >= 0) return { turn, token };
    if (["kind", "name", "action", "observation"].some((name) => left[name] !== right[name])) return { turn, token: -1 };
  }
  return { turn: most, token: -1 };
}

function firstDifference(a, b) {
  const most = Math.max(a.length, b.length);
  for (let i = 0; i < most; i++) if (a[i] !== b[i]) return i;
  return -1;
}
