(()=>{
const n=JSON.parse(document.getElementById('numbers').textContent),t=n.time,all=Math.max(n.stats.wall_seconds,1e-3);
const tip=document.createElement('div');tip.id='tip';tip.hidden=true;document.body.append(tip);
const b=v=>{const u=['B','KiB','MiB','GiB','TiB'];let i=0;while(v>=1024&&i<4){v/=1024;i++}return v.toFixed(i?1:0)+' '+u[i]};
const us=v=>v<1e3?v.toPrecision(3)+' µs':v<1e6?(v/1e3).toPrecision(3)+' ms':(v/1e6).toPrecision(3)+' s';
const g=v=>v.toLocaleString('en'),at=s=>s.toFixed(all<10?2:1)+' s';
const step=x=>Math.min(t.resident_bytes.length-1,Math.floor(x*all/t.step_seconds));
const parts=[['in place','program'],['standby','standby'],['compressed','payload'],['overhead','overhead'],['not managed','unmanaged'],['resident','resident'],['programs have','logical'],['limit','limit']];
const rows=[];{let y=0,o=null;for(const r of n.space.rows){if(o)y+=o.pid!==r.pid?1.5:o.address+n.space.block_bytes!==r.address?.5:0;rows.push([y,r]);y+=1;o=r}rows.end=y}
const show={
memory(x){const i=step(x);return at(i*t.step_seconds)+'\n'+parts.filter(p=>p[1]!=='unmanaged'||t.unmanaged_bytes[i]).map(p=>p[0].padEnd(14)+b(t[p[1]+'_bytes'][i])).join('\n')},
stall(x){const i=step(x);return at(i*t.step_seconds)+'\nwaited  '+(t.stalled_ns[i]/1e7/t.step_seconds).toFixed(1)+' %\nfor room, all threads  '+us(t.throttled_ns[i]/1e3)},
rate(x){const i=step(x);return at(i*t.step_seconds)+'\n'+g(t.pages_faulted[i])+' faults\n'+g(t.pages_rescued[i])+' from standby\n'+g(t.pages_compressed[i])+' compressed'},
latency(x,y){const l=n.latency,c=l.columns.flat().map(e=>e[0]),hi=Math.max(...c),lo=Math.min(...c),k=hi-Math.floor(y*(hi-lo+1)),col=l.columns[Math.floor(x*all/l.column_seconds)]||[],e=col.find(e=>e[0]===k);return at(x*all)+'\nfrom '+us(l.classes_from_us[k])+'\n'+g(e?e[1]:0)+' faults'},
space(x,y){const r=rows.find(r=>y*rows.end>=r[0]&&y*rows.end<r[0]+1);if(!r)return'';const k=Math.floor(x*all/n.space.column_seconds),c=r[1].cells.find(c=>c[0]===k)||[0,0,0];return at(x*all)+'\n0x'+r[1].address.toString(16)+' '+(r[1].mapping||'')+(r[1].pid?'\nprocess '+r[1].pid:'')+'\n'+g(c[1])+' faults\n'+g(c[2])+' pages compressed'}
};
for(const id in show){const p=document.querySelector('#'+id+' .in');if(!p)continue;
p.addEventListener('pointermove',e=>{const r=p.getBoundingClientRect(),text=show[id](Math.min(.9999,Math.max(0,(e.clientX-r.left)/r.width)),Math.min(.9999,Math.max(0,(e.clientY-r.top)/r.height)));
tip.hidden=!text;tip.textContent=text;tip.style.left=Math.min(e.clientX+14,innerWidth-tip.offsetWidth-6)+'px';tip.style.top=Math.min(e.clientY+14,innerHeight-tip.offsetHeight-6)+'px'});
p.addEventListener('pointerleave',()=>{tip.hidden=true})}
})();
